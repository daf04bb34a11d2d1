//! On a terminal: Ctrl-C reaches the command once, Ctrl-Z stops both and `fg` continues both; a
//! status that is watched stays in place.

use std::process::Stdio;
use std::thread;
use std::time::Duration;

use kit::process::{Process, guarded};
use kit::wait::{until, wait_for_blocking};
use kit::{Outcome, ensure};

use crate::beside::support::{PROGRAM, Proxy, scope};

/// A shell with job control on a separate terminal; `script` of util-linux makes one.
struct Terminal(Process);

impl Terminal {
    fn start() -> Outcome<Self> {
        let mut script = guarded("script");
        let shell = "env PS1=% TERM=xterm bash --norc --noprofile -i";
        script.args(["--quiet", "--return", "--command", shell, "/dev/null"]);
        script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        Process::spawn(script).map(Self)
    }

    fn types(&mut self, text: &str) -> Outcome {
        self.0.write(text)
    }

    fn shows(&self, text: &str) -> usize {
        self.0.stdout().matches(text).count()
    }

    fn until_it_shows(&self, text: &str, times: usize) -> Outcome {
        wait_for_blocking(text, || {
            ensure!(self.shows(text) == times, "{:?}", self.0.stdout());
            Ok(())
        })
    }
}

#[test]
fn job_control_works_and_each_key_arrives_once() -> Outcome {
    let proxy = Proxy::start()?;
    let mut terminal = Terminal::start()?;
    // `wait` is interrupted by each signal, so that two in a row are not taken for one. The trap of
    // a pending INT runs before that of CONT.
    let command = "trap 'echo int-$((count=count+1)).; [ $count -lt 11 ] || { kill $!; exit 7; }' \
        INT; trap 'echo continued-$((1)).' CONT; (trap '' INT; echo be''gun; exec sleep 60) & \
        while kill -0 $!; do wait; done";
    let exec = proxy.exec(&["--end-proxy", "never"], ["bash", "-c", command]);
    let words: Vec<String> = [exec.get_program()]
        .into_iter()
        .chain(exec.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap().replace('\'', "'\\''")))
        .collect();
    terminal.types(&format!("{}; echo code''-$?\n", words.join(" ")))?;
    terminal.until_it_shows("begun", 1)?;
    for press in 1..=10 {
        terminal.types("\u{3}")?;
        terminal.until_it_shows(&format!("int-{press}."), 1)?;
        thread::sleep(Duration::from_millis(50));
    }
    terminal.types("\u{1a}")?;
    terminal.until_it_shows("Stopped", 1)?;
    terminal.types("fg; echo again''-$?\n")?;
    until("the command to go on", || terminal.shows("continued-1.") > 0)?;
    assert_eq!(terminal.shows("int-11."), 0, "some came twice");
    terminal.types("\u{3}")?;
    terminal.until_it_shows("int-11.", 1)?;
    terminal.until_it_shows("again-7", 1)?;
    Ok(())
}

/// `status --watch`, with these assignments of variables in front. The status has more scopes than
/// the terminal has lines.
fn watched_on_a_small_terminal(proxy: &Proxy, variables: &str) -> Outcome<Terminal> {
    proxy.has_status("draining", "x", "exact", vec![scope("gateway", 1); 20]);
    let mut terminal = Terminal::start()?;
    terminal.types(&format!(
        "stty cols 60 rows 12; {variables} '{PROGRAM}' status --watch --interval 100ms --gate {}\n",
        proxy.url("")
    ))?;
    Ok(terminal)
}

/// Lines that have scrolled away cannot be replaced, and would be shown twice.
#[test]
fn a_watched_status_fits_on_the_terminal() -> Outcome {
    let proxy = Proxy::start()?;
    let terminal = watched_on_a_small_terminal(&proxy, "")?;
    until("several looks", || terminal.shows("more, which a larger terminal shows") >= 3)?;
    assert!(terminal.shows("\u{1b}[10A\r\u{1b}[J") >= 2, "{:?}", terminal.0.stdout());
    Ok(())
}

/// Without colours the printer writes no cursor movements, so a redraw would stand below the
/// previous one. A CI job has colours, but not on a dumb terminal.
#[test]
fn without_colours_each_look_is_a_line() -> Outcome {
    let proxy = Proxy::start()?;
    for variables in ["NO_COLOR=1", "TERM=dumb", "CI=true TERM=dumb"] {
        let terminal = watched_on_a_small_terminal(&proxy, variables)?;
        until("several looks", || terminal.shows("draining: x") >= 3)?;
        assert_eq!(terminal.shows("a larger terminal"), 0, "{variables}");
    }
    Ok(())
}

#[test]
fn a_watched_status_is_drawn_in_place_until_the_gate_is_open() -> Outcome {
    let proxy = Proxy::start()?;
    let scopes = vec![scope("gateway", 1)];
    proxy.has_status("draining", &"a long reason ".repeat(40), "exact", scopes.clone());
    let mut terminal = Terminal::start()?;
    terminal.types(&format!(
        "stty cols 60; '{PROGRAM}' status --watch --interval 100ms --gate {}; echo code''-$?\n",
        proxy.url("")
    ))?;
    until("several looks", || terminal.shows("draining: ") >= 4)?;
    // Six lines are drawn anew, also where the first is longer than the terminal is wide.
    assert!(terminal.shows("\u{1b}[6A\r\u{1b}[J") >= 3, "{:?}", terminal.0.stdout());
    assert_eq!(terminal.shows(&"a long reason ".repeat(5)), 0);
    proxy.has_status("drained", "the last stream has ended", "exact", scopes);
    terminal.until_it_shows("code-0", 1)?;
    assert_eq!(terminal.shows("drained: the last stream has ended"), 1);
    Ok(())
}
