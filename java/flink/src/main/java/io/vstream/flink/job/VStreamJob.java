package io.vstream.flink.job;

import io.vstream.flink.dataflow.SearchDataflow;
import io.vstream.flink.kafka.Topics;
import io.vstream.flink.merge.Answer;
import io.vstream.flink.sink.AnswerConsole;
import io.vstream.flink.sink.AnswerFile;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** A job file as a program: sources, one search and a sink. */
final class VStreamJob {

    private VStreamJob() {}

    /**
     * Adds the whole job.
     *
     * @param env made with {@link FlinkSettings}
     * @param gate name of the gate that the sources obey
     */
    static void add(StreamExecutionEnvironment env, JobSettings job, String gate) {
        SearchDataflow.Inputs inputs = Sources.add(env, job, gate, job.dataflow().needsTraining());
        addSink(job, SearchDataflow.add(env, job.dataflow(), inputs).answers());
    }

    /** Adds the sink that the settings ask for. */
    static void addSink(JobSettings job, DataStream<Answer> answers) {
        switch (job.results().kind()) {
            case "file" ->
                    answers.sinkTo(new AnswerFile(job.results().path()))
                            .setParallelism(1)
                            .name("file")
                            .uid("file");
            case "console" ->
                    answers.sinkTo(new AnswerConsole())
                            .setParallelism(1)
                            .name("console")
                            .uid("console");
            case "kafka" -> Topics.sink(answers, job.results().kafka(), job.dataflow().schema());
            default ->
                    answers.sinkTo(new DiscardingSink<>())
                            .setParallelism(answers.getParallelism())
                            .name("blackhole")
                            .uid("blackhole");
        }
    }
}
