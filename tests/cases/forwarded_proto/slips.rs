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

/// Mistakes in the listeners: the replaced text, its replacement, and a part of the error.
const IN_LISTENERS: [(&str, &str, &str); 6] = [
    ("| plain |", "| plainly |", "is no connection"),
    ("| yes | yes | no |", "| yes | perhaps | no |", "neither yes nor no"),
    ("| 0 |", "| none |", "hops"),
    ("| a gateway |", "| |", "an empty reason"),
    ("appends port", "appends", "the column `appends` is not known"),
    ("`edge` | yes", "`edge2` | yes", "there is no listener `edge`"),
];

/// Mistakes in a section, in the same form.
const IN_SECTION: [(&str, &str, &str); 35] = [
    ("Listener: `edge`\n", "", "no line"),
    ("Listener: `edge`\n", "Listener: `edge`\nListener: `edge`\n", "is there twice"),
    ("Listener: `edge`\n", "Listener: `edge`\nListner: `edge`\n", "`Listner` is not known here"),
    ("Listener: `edge`\n", "Listener: `inner`\n", "there is no listener `inner`"),
    ("```json\n{}\n```\n", "", "no configuration"),
    ("| A |", "| |", "an empty id or reason"),
    ("| a reason |", "| |", "an empty id or reason"),
    ("| a reason |", "|", "9 cells for 10 columns"),
    ("| a reason |", "| a | reason |", "11 cells for 10 columns"),
    ("| a reason |", "| a reason", "a row ends with `|`"),
    ("|---|---|", "|---|", "a rule of 10 columns should stand here"),
    ("| verdict |", "| verdicts |", "the column `verdicts` is not known"),
    ("| verdict |", "| route |", "the column `route` is there twice"),
    ("| 127.0.0.9 |", "| 127.0.0.256 |", "127.0.0.256"),
    ("| 127.0.0.9 |", "| 127.0.0.9 or so |", "is no client"),
    ("| 127.0.0.9 |", "| 127.0.0.9 as `spiffe://a` |", "asks for no certificate"),
    ("| 127.0.0.9 |", "| 127.0.0.9 proxied for 127.0.0.1 |", "takes no PROXY header"),
    ("| 127.0.0.9 |", "| 127.0.0.9 proxied as `v3 ::1` |", "is no PROXY header"),
    ("| 127.0.0.9 |", "| 127.0.0.9 proxied as `v1 ::1` |", "::1"),
    ("| 127.0.0.9 |", "| 127.0.0.9 proxied as `v1 1.2.3.4:5 local` |", "says nothing of"),
    ("| 127.0.0.9 |", "| 127.0.0.9 proxied as `v2 [0::1]:5` |", "write"),
    ("| 127.0.0.9 |", r"| 127.0.0.9 proxied as `raw \q` |", "is not known"),
    ("| h1 h2 |", "| h1 h4 |", "`h4` is no protocol"),
    ("| h1 h2 |", "| h3 |", "h3 belongs to QUIC"),
    ("`a: b`", "a: b", "outside of the code spans"),
    ("`a: b`", "`a: b", "a backtick without its twin"),
    ("`a: b`", "`a b`", "no colon"),
    ("`a: b`", "`a:b`", "no blank behind the colon"),
    ("`a: b`", "`a: b `", "cannot be seen"),
    ("`a: b`", r"`a: \q`", "is not known"),
    ("`a: b`", r"`a: \x00`", "only HTTP/1 can carry this request"),
    ("| yes | http |", "| maybe | http |", "neither `yes` nor `no`"),
    ("| http | untrusted |", "| other | untrusted |", "is no route"),
    ("| untrusted |", "| refused |", "`refused` is no verdict"),
    ("| attack | a", "| Attack | a", "neither `attack` nor `limit`"),
];

pub(super) fn all_are_refused() -> Outcome {
    Table::of(LISTENERS, &[("rows", SECTION)])?;
    for (from, to, said) in IN_LISTENERS {
        refused(&changed(LISTENERS, from, to)?, &[("rows", SECTION)], said)?;
    }
    for (from, to, said) in IN_SECTION {
        refused(LISTENERS, &[("rows", &changed(SECTION, from, to)?)], said)?;
    }
    refused(LISTENERS, &[("rows", SECTION), ("more", SECTION)], "the id A is there twice")?;
    refused(LISTENERS, &[], "no section uses the listener `edge`")?;
    let believed = changed(SECTION, "| `http` | yes | http |", "| `https` | no | https |")?;
    ensure_eq!(
        Table::of(LISTENERS, &[("rows", &believed)])?.untrusted_that_become_https(),
        ["A"],
        "untrusted rows that become https"
    );
    Ok(())
}

fn changed(text: &str, from: &str, to: &str) -> Outcome<String> {
    ensure!(text.contains(from), "{from:?} is not there to be replaced");
    Ok(text.replacen(from, to, 1))
}

fn refused(listeners: &str, files: &[(&str, &str)], said: &str) -> Outcome {
    match Table::of(listeners, files) {
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
