//! A mistake in a table must not become a row that checks nothing: each of these mistakes is
//! refused, with a reason.

use kit::forwarded_proto::table::Table;
use kit::prelude::*;

const LISTENERS: &str = "\
## Names
| listener | use_remote_address | hops | connection | address | saves | direct peer \
| appends port | stands for |
|---|---|---|---|---|---|---|---|---|
| `edge` | yes | 0 | plain | 127.0.0.1 | yes | yes | no | a gateway |
";
const SECTION: &str = "\
## A section
Listener: `edge`
```json
{}
```
| id | from | over | request | x-forwarded-proto | redirect | route | verdict | attack | why |
|---|---|---|---|---|---|---|---|---|---|
| A | 127.0.0.9 | h1 h2 | `a: b` | `http` | yes | http | untrusted | attack | a reason |
";

/// Mistakes in a section: the replaced text, its replacement, and a part of the error.
const MISTAKES: [(&str, &str, &str); 14] = [
    ("Listener: `edge`\n", "Listener: `inner`\n", "there is no listener `inner`"),
    ("```json\n{}\n```\n", "", "no configuration"),
    ("| a reason |", "|", "9 cells for 10 columns"),
    ("| verdict |", "| verdicts |", "the column `verdicts` is not known"),
    ("| verdict |", "| route |", "the column `route` is there twice"),
    ("| 127.0.0.9 |", "| 127.0.0.9 or so |", "is no client"),
    ("| 127.0.0.9 |", "| 127.0.0.9 proxied for 127.0.0.1 |", "takes no PROXY header"),
    ("| 127.0.0.9 |", "| 127.0.0.9 proxied as `v3 ::1` |", "is no PROXY header"),
    ("| h1 h2 |", "| h1 h4 |", "`h4` is no protocol"),
    ("`a: b`", "a: b", "outside of the code spans"),
    ("`a: b`", r"`a: \x00`", "only HTTP/1 can carry this request"),
    ("| yes | http |", "| maybe | http |", "neither `yes` nor `no`"),
    ("| http | untrusted |", "| other | untrusted |", "is no route"),
    ("| untrusted |", "| refused |", "`refused` is no verdict"),
];

pub(super) fn all_are_refused() -> Outcome {
    Table::of(LISTENERS, &[("rows", SECTION)])?;
    for (from, to, said) in MISTAKES {
        refused(&[("rows", &changed(from, to)?)], said)?;
    }
    refused(&[("rows", SECTION), ("more", SECTION)], "the id A is there twice")?;
    refused(&[], "no section uses the listener `edge`")?;
    let believed = changed("| `http` | yes | http |", "| `https` | no | https |")?;
    ensure_eq!(
        Table::of(LISTENERS, &[("rows", &believed)])?.untrusted_that_become_https(),
        ["A"],
        "untrusted rows that become https"
    );
    Ok(())
}

fn changed(from: &str, to: &str) -> Outcome<String> {
    ensure!(SECTION.contains(from), "{from:?} is not there to be replaced");
    Ok(SECTION.replacen(from, to, 1))
}

fn refused(files: &[(&str, &str)], said: &str) -> Outcome {
    match Table::of(LISTENERS, files) {
        Ok(_) => bail!("no log has {said:?}"),
        Err(failure) => {
            ensure!(
                format!("{failure:#}").contains(said),
                "expected {said:?}, but it said: {failure:#}"
            )
        }
    }
    Ok(())
}
