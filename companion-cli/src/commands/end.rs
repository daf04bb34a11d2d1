//! `laststream end`

use clap::Args;
use laststream::base::time_span::TimeSpan;
use laststream::gate::text;
use laststream_filter::gate::StreamKind;

use crate::commands::exit::Exit;
use crate::commands::gate_args::{EXIT_CODES, GateArgs, ListArgs};
use crate::commands::output::Output;
use crate::commands::printer::Printer;

/// Ends a share of the streams of an Envoy, the oldest first, so that their clients connect anew.
/// It needs no drain: use it to spread long-lived streams over new replicas.
#[derive(Debug, Args)]
#[command(after_help = format!(
    "Examples:\n  laststream end --kind websocket --share 10% --over 60s --dry-run\n  \
     laststream end --kind websocket --share 10% --over 60s\n  laststream end --stop\n\n\
     {EXIT_CODES}"
))]
pub(crate) struct End {
    #[command(flatten)]
    gate: GateArgs,
    /// The kinds of streams, with commas between them: waiting, websocket, grpc, event_stream,
    /// other.
    #[arg(
        long, value_name = "KIND", value_delimiter = ',', required_unless_present = "stop",
        value_parser = kind
    )]
    kind: Vec<StreamKind>,
    /// The share of the streams that have begun before this command: 1% to 100%. The share is
    /// rounded up to whole streams, on each proxy.
    #[arg(long, value_name = "PERCENT", required_unless_present = "stop", value_parser = share)]
    share: Option<u64>,
    /// The time over which the ends are spread: 1s to 24h.
    #[arg(long, value_name = "TIME", required_unless_present = "stop", value_parser = over)]
    over: Option<TimeSpan>,
    /// Also ends requests whose method changes something, such as POST.
    #[arg(long)]
    changing: bool,
    /// Ends nothing. Prints how many streams would be ended, and lists those that would be first.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    list: ListArgs,
    /// Stops the ends that an earlier `end` or a change of Envoy's configuration began.
    #[arg(long, conflicts_with_all = ["kind", "share", "over", "changing", "dry_run"])]
    stop: bool,
    /// The format of the result. `json` prints the body of the gate's response.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

fn kind(text: &str) -> Result<StreamKind, &'static str> {
    text.parse().map_err(|_| "the kinds are waiting, websocket, grpc, event_stream and other")
}

fn share(text: &str) -> Result<u64, &'static str> {
    let number = text.strip_suffix('%').unwrap_or(text);
    let share = number.parse().ok().filter(|share| (1..=100).contains(share));
    share.ok_or("write a whole percentage from 1% to 100%")
}

fn over(text: &str) -> Result<TimeSpan, String> {
    let time: TimeSpan = text.parse().map_err(str::to_owned)?;
    let is_possible = (1_000..=86_400_000).contains(&time.millis());
    if is_possible { Ok(time) } else { Err("write a time from 1s to 24h".into()) }
}

impl End {
    fn query(&self) -> String {
        let kinds: Vec<&str> = self.kind.iter().map(Into::into).collect();
        let (share, over) = (self.share.unwrap_or_default(), self.over.unwrap_or_default());
        let mut query = format!("kind={}&share={share}&over={}ms", kinds.join(","), over.millis());
        if self.changing {
            query.push_str("&changing");
        }
        if self.dry_run {
            query.push_str(&format!("&dry_run&limit={}", self.list.limit));
        }
        query
    }
}

pub(super) fn run(command: &End, printer: &Printer) -> Result<Exit, Exit> {
    let (text, json) = command.gate.ask(printer, |gate| match command.stop {
        true => gate.stop_end().map(|answer| (text::outcome(&answer.body), answer.text)),
        false => gate.end(&command.query()).map(|answer| (text::end(&answer.body), answer.text)),
    })?;
    printer.result(command.output, &json, text.trim_end());
    Ok(Exit::Fine)
}

#[cfg(test)]
mod tests {
    use super::{over, share};

    #[test]
    fn bounds_are_checked_before_the_gate_is_asked() {
        assert_eq!((share("10%"), share("100")), (Ok(10), Ok(100)));
        for wrong in ["0", "0%", "101%", "-1%", "10.5%", "%", "", "10%%", "all"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
        for right in ["1s", "60s", "1000ms", "24h"] {
            assert!(over(right).is_ok(), "{right}");
        }
        for wrong in ["0s", "999ms", "25h", "", "-1s", "99999999999999999999s"] {
            assert!(over(wrong).is_err(), "{wrong}");
        }
    }
}
