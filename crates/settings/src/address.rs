//! Folders on this machine, or on any file system that Flink supports.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// A folder: a local path, or an address such as `s3://bucket/folder`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum FolderAddress {
    /// An absolute path of this machine.
    Local(PathBuf),
    /// `scheme://authority/folder`, unchanged. Flink provides the file system.
    Remote(String),
}

impl FolderAddress {
    /// Parses `scheme://...` as an address, and any other text as a path, which becomes absolute
    /// against the working directory. `file:///folder` is a path too.
    ///
    /// Errors: a sentence with a correct form.
    pub(crate) fn parse(text: &str) -> Result<FolderAddress, String> {
        if let Some(path) = text.strip_prefix("file:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if !path.starts_with('/') {
                return Err(format!("'{text}' is no folder. Write file:///folder."));
            }
            return Ok(FolderAddress::Local(PathBuf::from(path)));
        }
        let Some(rest) = after_scheme(text) else {
            let path = std::path::absolute(text).unwrap_or_else(|_| PathBuf::from(text));
            return Ok(FolderAddress::Local(path));
        };
        let authority = rest.split('/').next().unwrap_or_default();
        let is_s3 = text.starts_with("s3");
        // Some stores have the name of an account in this part of the address.
        let user = authority.split_once('@').map(|(user, _)| user);
        // A secret may contain a slash, so the apparent bucket may be a part of it.
        let has_credentials = user.is_some_and(|user| user.contains(':'));
        if has_credentials || (is_s3 && rest.contains('@')) {
            // Addresses are printed and logged, so the sentence does not repeat this one.
            return Err("an address holds no credentials. Leave them to the environment: \
                        AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
                .to_owned());
        }
        if authority.is_empty() && is_s3 {
            return Err(format!("'{text}' names no bucket. Write s3://bucket/folder."));
        }
        if rest.contains(['?', '#']) {
            return Err(format!(
                "'{text}' has more than a bucket and a folder. Leave endpoint and region to the \
                 environment: AWS_ENDPOINT_URL and AWS_REGION."
            ));
        }
        Ok(FolderAddress::Remote(text.to_owned()))
    }

    /// The path, if the folder is on this machine.
    pub fn local(&self) -> Option<&Path> {
        match self {
            FolderAddress::Local(path) => Some(path),
            FolderAddress::Remote(_) => None,
        }
    }
}

impl fmt::Display for FolderAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FolderAddress::Local(path) => path.display().fmt(f),
            FolderAddress::Remote(address) => f.write_str(address),
        }
    }
}

/// The part of an address after `scheme://`. `None` if `text` is no address.
pub(crate) fn after_scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once("://")?;
    let letters = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    (is_scheme && scheme.chars().all(letters)).then_some(rest)
}
