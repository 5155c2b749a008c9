package io.vstream.flink.job;

import io.vstream.flink.kafka.Loopback;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Path;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.fs.FileStatus;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.UnsupportedFileSystemSchemeException;
import org.apache.flink.core.plugin.PluginUtils;

/**
 * Flink's file systems in a process that is no Flink process: those of the plugins folder ({@code
 * FLINK_PLUGINS_DIR}), and for {@code s3://} the same environment that the {@code vstream} command
 * reads: {@code AWS_ENDPOINT_URL}, {@code AWS_REGION}, and credentials, which never become part of
 * a configuration, since Flink logs those.
 */
final class FileSystems {

    private static final Pattern ADDRESS = Pattern.compile("[A-Za-z][A-Za-z0-9+.-]*://.*");

    /** The file that makes a folder a checkpoint; it is written last. */
    private static final String METADATA = "_metadata";

    /** Checkpoints of a job lie at {@code JOB/chk-N} below its folder. */
    private static final int DEPTH = 2;

    private FileSystems() {}

    /**
     * Loads them, for the whole process.
     *
     * @throws IllegalArgumentException with a sentence if the environment names no usable endpoint
     */
    static void load(Map<String, String> environment) {
        Configuration settings = s3(environment);
        // The client would print its age, with a stack trace, whenever it is loaded.
        System.setProperty("aws.java.v1.disableDeprecationAnnouncement", "true");
        FileSystem.initialize(settings, PluginUtils.createPluginManagerFromRootFolder(settings));
    }

    /**
     * The S3 settings of the environment, less its credentials: the client looks these up itself.
     */
    static Configuration s3(Map<String, String> environment) {
        Configuration settings = new Configuration();
        String endpoint = first(environment, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
        String region = first(environment, "AWS_REGION", "AWS_DEFAULT_REGION");
        if (endpoint != null) {
            refusePlain(endpoint);
            settings.setString("s3.endpoint", endpoint);
            // A server of one's own seldom has a name for every bucket.
            settings.setString("s3.path.style.access", "true");
        }
        if (region != null) {
            settings.setString("s3.endpoint.region", region);
        }
        return settings;
    }

    /** The URI of a folder: an address as it is, a path as a {@code file:} URI. */
    static String uri(String folder) {
        return ADDRESS.matcher(folder).matches() ? folder : Path.of(folder).toUri().toString();
    }

    /**
     * Looks whether there is a file system for an address; asks nobody.
     *
     * @throws IllegalArgumentException with a sentence if there is none
     */
    static void check(String key, String folder) throws IOException {
        URI uri = new org.apache.flink.core.fs.Path(uri(folder)).toUri();
        try {
            FileSystem.get(uri);
        } catch (UnsupportedFileSystemSchemeException e) {
            throw new IllegalArgumentException(
                    key
                            + ": there is no file system for "
                            + uri.getScheme()
                            + "://. Put Flink's plugin for it into a folder of its own below"
                            + " plugins, or name that folder by FLINK_PLUGINS_DIR.",
                    e);
        }
    }

    /**
     * The checkpoint or savepoint that an address names: itself, or the newest below it.
     *
     * @throws IllegalArgumentException with a sentence if there is none
     */
    static String newest(String given) throws IOException {
        if (!ADDRESS.matcher(given).matches()) {
            return given;
        }
        check("--restore", given);
        var folder = new org.apache.flink.core.fs.Path(given);
        FileStatus found = newest(folder.getFileSystem(), folder, DEPTH);
        if (found == null) {
            throw new IllegalArgumentException(
                    given
                            + " holds no complete checkpoint or savepoint. Give the folder of one,"
                            + " or the checkpoint.path of the job that wrote it.");
        }
        return found.getPath().getParent().toString();
    }

    /** Deletes a folder that may be there. */
    static void delete(String folder) throws IOException {
        var path = new org.apache.flink.core.fs.Path(folder);
        path.getFileSystem().delete(path, true);
    }

    /** The newest metadata file at or below a folder, or null. */
    private static FileStatus newest(
            FileSystem system, org.apache.flink.core.fs.Path folder, int depth) throws IOException {
        FileStatus[] entries;
        try {
            entries = system.listStatus(folder);
        } catch (FileNotFoundException e) {
            return null;
        }
        FileStatus newest = null;
        for (FileStatus entry : entries == null ? new FileStatus[0] : entries) {
            FileStatus one = null;
            if (entry.getPath().getName().equals(METADATA)) {
                one = entry;
            } else if (entry.isDir() && depth > 0) {
                one = newest(system, entry.getPath(), depth - 1);
            }
            if (one != null
                    && (newest == null
                            || one.getModificationTime() > newest.getModificationTime())) {
                newest = one;
            }
        }
        return newest;
    }

    private static void refusePlain(String endpoint) {
        URI uri = URI.create(endpoint);
        if ("https".equals(uri.getScheme())) {
            return;
        }
        if (!"http".equals(uri.getScheme()) || !Loopback.isHostOf(uri)) {
            throw new IllegalArgumentException(
                    "The endpoint "
                            + endpoint
                            + " is not encrypted: use https; http is for addresses of this machine"
                            + " alone.");
        }
    }

    private static String first(Map<String, String> environment, String... names) {
        for (String name : names) {
            String value = environment.get(name);
            if (value != null && !value.isBlank()) {
                return value;
            }
        }
        return null;
    }
}
