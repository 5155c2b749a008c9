//! `vstream verify`: every byte of a snapshot or collection is what was written, or which is not.

use serde_json::json;
use vstream_engine::Verified;
use vstream_store::remote::Location;

use crate::arguments::VerifyArguments;
use crate::failure::Failure;
use crate::groups;
use crate::pushed;
use crate::snapshot::partitions_below;
use crate::text;

/// Looks at every byte. Errors: there is damage, or nothing to look at.
pub(crate) fn verify(arguments: &VerifyArguments) -> Result<(), Failure> {
    let location = Location::parse(&arguments.folder)?;
    let mut whole = Verified::default();
    match location.folder() {
        Some(folder) if !pushed::is_place(&location)? => {
            if let Some(found) = vstream_group::verify_groups(folder)? {
                return groups::report(&found, arguments);
            }
            let below = partitions_below(folder)?;
            let folders = if below.is_empty() { vec![folder.to_path_buf()] } else { below };
            for folder in &folders {
                add(&mut whole, vstream_engine::verify(folder)?);
            }
        }
        _ => {
            for place in pushed::places(&location)? {
                add(&mut whole, pushed::verify(&place)?);
            }
        }
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
            arguments.folder
        )));
    }
    Ok(())
}

fn add(whole: &mut Verified, part: Verified) {
    whole.rows += part.rows;
    whole.digest = whole.digest.wrapping_add(part.digest);
    whole.files += part.files;
    whole.bytes += part.bytes;
    whole.findings.extend(part.findings);
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
