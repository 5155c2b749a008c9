//! `vstream verify`: every byte of a snapshot or collection is what was written, or which is not.

use serde_json::json;
use vstream_engine::Verified;

use crate::arguments::VerifyArguments;
use crate::failure::Failure;
use crate::snapshot::partitions_below;
use crate::text;

/// Looks at every byte. Errors: there is damage, or nothing to look at.
pub(crate) fn verify(arguments: &VerifyArguments) -> Result<(), Failure> {
    let below = partitions_below(&arguments.folder);
    let folders = if below.is_empty() { vec![arguments.folder.clone()] } else { below };
    let mut whole = Verified::default();
    for folder in &folders {
        let part = vstream_engine::verify(folder)?;
        whole.rows += part.rows;
        whole.digest = whole.digest.wrapping_add(part.digest);
        whole.files += part.files;
        whole.bytes += part.bytes;
        whole.findings.extend(part.findings);
    }
    if arguments.json {
        text::print_line(&as_json(&whole))?;
    } else {
        text::print(&as_text(&whole))?;
    }
    let damaged = whole.findings.iter().filter(|finding| finding.is_damage).count();
    if damaged > 0 {
        return Err(Failure::failed(format!(
            "{} is damaged: restore it from elsewhere.",
            arguments.folder.display()
        )));
    }
    Ok(())
}

fn as_json(whole: &Verified) -> String {
    let findings: Vec<_> = whole
        .findings
        .iter()
        .map(|finding| json!({ "what": finding.what, "damage": finding.is_damage }))
        .collect();
    json!({
        "rows": whole.rows,
        "digest": format!("{:032x}", whole.digest),
        "files": whole.files,
        "bytes": whole.bytes,
        "findings": findings,
    })
    .to_string()
}

fn as_text(whole: &Verified) -> String {
    let mut said: String = whole
        .findings
        .iter()
        .map(|finding| {
            let kind = if finding.is_damage { "damage" } else { "left over" };
            format!("{kind}: {}\n", finding.what)
        })
        .collect();
    if whole.findings.is_empty() {
        said.push_str(&format!(
            "All is as it was written: {} rows in {} files, {}, digest {:032x}\n",
            text::count(whole.rows),
            whole.files,
            text::bytes(whole.bytes),
            whole.digest
        ));
    }
    said
}
