//! Offsets of tracepoint fields on the running kernel, from tracefs.

use crate::is_tracefs;
use fabriclens_agent_host::batch::SampleError;
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_host::sysfile::text;
use std::path::{Path, PathBuf};

/// The events directory of tracefs.
///
/// # Errors
/// `Absent` if it is not mounted or not readable.
pub fn events(roots: &Roots) -> Result<PathBuf, SampleError> {
    let places = ["kernel/tracing", "kernel/debug/tracing"].map(|place| roots.sys().join(place));
    let found = places.iter().find(|place| is_tracefs(place)).map(|place| place.join("events"));
    found.ok_or_else(|| {
        SampleError::Absent(format!(
            "tracefs is not mounted or not readable; as root: mount -t tracefs tracefs {}",
            places[0].display()
        ))
    })
}

/// Offsets of fields (global, field) of a tracepoint; missing optional fields are left out.
///
/// # Errors
/// `Absent` if the kernel lacks the tracepoint or a required field.
pub fn offsets(
    tracepoint: &Path,
    fields: &[(&'static str, &'static str)],
    optional: &[(&'static str, &'static str)],
) -> Result<Vec<(&'static str, u32)>, SampleError> {
    let format = text(&tracepoint.join("format"))?;
    let find = |(global, name): &(&'static str, &'static str)| {
        let offset = offset(&format, name).ok_or_else(|| {
            let (place, name) = (tracepoint.display(), *name);
            SampleError::Absent(format!(
                "{place} has no field {name} on this kernel; please report the kernel's version"
            ))
        })?;
        Ok((*global, offset))
    };
    let mut found: Vec<(&'static str, u32)> = fields.iter().map(find).collect::<Result<_, SampleError>>()?;
    found.extend(optional.iter().filter_map(|(global, name)| Some((*global, offset(&format, name)?))));
    Ok(found)
}

/// Offset from a line such as `field:__u8 saddr[28]; offset:8; size:28; signed:0;`.
pub(crate) fn offset(format: &str, name: &str) -> Option<u32> {
    format.lines().find_map(|line| {
        let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
        let declared = parts.next()?.split('[').next()?.split([' ', '*']).next_back()?;
        (declared == name).then(|| parts.find_map(|part| part.strip_prefix("offset:")?.parse().ok()))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: tcp_probe\nID: 1\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:__u8 saddr[28];\toffset:8;\tsize:28;\tsigned:0;\n\
        \tfield:const void * skaddr;\toffset:128;\tsize:8;\tsigned:0;\n\
        \tfield:__u32 srtt;\toffset:100;\tsize:4;\tsigned:0;\n\nprint fmt: \"srtt=%u\", REC->srtt\n";

    #[test]
    fn fields_are_found_by_their_whole_name() {
        for (name, want) in [
            ("saddr", Some(8)),
            ("skaddr", Some(128)),
            ("srtt", Some(100)),
            ("common_type", Some(0)),
            ("addr", None),
            ("", None),
        ] {
            assert_eq!(offset(FORMAT, name), want, "{name}");
        }
    }

    #[test]
    fn a_missing_field_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("format"), FORMAT).unwrap();
        let (srtt, mark) = (("SRTT", "srtt"), ("MARK", "mark"));
        assert_eq!(offsets(dir.path(), &[srtt], &[mark]).unwrap(), [("SRTT", 100)]);
        let error = offsets(dir.path(), &[srtt, mark], &[]).unwrap_err();
        assert!(matches!(&error, SampleError::Absent(why) if why.contains("no field mark")), "{error:?}");
    }
}
