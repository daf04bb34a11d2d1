//! On a terminal: Ctrl-C reaches the command once, Ctrl-Z stops both and `fg` continues both; a
//! status that is watched stays in place.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::support::{Proxy, until};

/// A shell with job control on a terminal of its own; `script` of util-linux makes one.
struct Terminal {
    script: std::process::Child,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    fn start() -> Self {
        let mut script = Command::new("script")
            .args([
                "--quiet",
                "--return",
                "--command",
                "env PS1=% bash --norc --noprofile -i",
                "/dev/null",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let shown = Arc::<Mutex<String>>::default();
        let (mut out, seen) = (script.stdout.take().unwrap(), Arc::clone(&shown));
        thread::spawn(move || {
            let mut buffer = [0; 1024];
            while let Ok(count @ 1..) = out.read(&mut buffer) {
                seen.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        });
        Self { script, shown }
    }

    fn types(&mut self, text: &str) {
        self.script.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn shows(&self, text: &str) -> usize {
        self.shown.lock().unwrap().matches(text).count()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("{:?}\n", self.shown.lock()).as_bytes(),
            );
        }
        let _ = self.script.kill(); // with its terminal all that is on it hangs up
        let _ = self.script.wait();
    }
}

#[test]
fn job_control_works_and_keys_come_once() {
    let proxy = Proxy::start();
    let mut terminal = Terminal::start();
    // `wait` is interrupted by each signal, so that two in a row are not taken for one.
    let command = "trap 'echo int-$((count=count+1)).; [ $count -lt 11 ] || { kill $!; exit 7; }' \
        INT; (trap '' INT; echo be''gun; exec sleep 60) & \
        while kill -0 $!; do wait; done";
    let exec = proxy.exec(&["--end-proxy", "never"], ["bash", "-c", command]);
    let words: Vec<String> = [exec.get_program()]
        .into_iter()
        .chain(exec.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap().replace('\'', "'\\''")))
        .collect();
    terminal.types(&format!("{}; echo code''-$?\n", words.join(" ")));
    until("the command", || terminal.shows("begun") == 1);
    for press in 1..=10 {
        terminal.types("\u{3}");
        until("Ctrl-C", || terminal.shows(&format!("int-{press}.")) == 1);
        thread::sleep(Duration::from_millis(50));
    }
    thread::sleep(Duration::from_millis(300));
    assert_eq!(terminal.shows("int-11."), 0, "some came twice");
    terminal.types("\u{1a}");
    until("Ctrl-Z", || terminal.shows("Stopped") == 1);
    let before = terminal.shows("'exec'");
    terminal.types("fg; echo again''-$?\n");
    until("the job's line", || terminal.shows("'exec'") > before);
    thread::sleep(Duration::from_millis(300));
    terminal.types("\u{3}");
    until("Ctrl-C after fg", || terminal.shows("int-11.") == 1);
    until("its exit code", || terminal.shows("again-7") == 1);
}

#[test]
fn a_watched_status_is_drawn_in_place_until_the_gate_is_open() {
    let status = |state: &str, reason: &str| {
        let scope = r#"{"scope": "gateway", "in_flight": 1, "begun": 7}"#;
        format!(
            r#"{{"state": "{state}", "reason": "{reason}", "count": "exact", "holding": 1, "scopes": [{scope}]}}"#
        )
    };
    let proxy = Proxy::start();
    proxy.answer("GET /status", 200, &status("draining", &"a long reason ".repeat(40)));
    let mut terminal = Terminal::start();
    terminal.types(&format!(
        "stty cols 60; '{}' status --watch --interval 100ms --gate {}; echo code''-$?\n",
        crate::support::PROGRAM,
        proxy.url("")
    ));
    until("several looks", || terminal.shows("draining: ") >= 4);
    // Six lines are drawn anew, also where the first is longer than the terminal is wide.
    assert!(terminal.shows("\u{1b}[6A\r\u{1b}[J") >= 3, "{:?}", terminal.shown.lock().unwrap());
    assert_eq!(terminal.shows(&"a long reason ".repeat(5)), 0);
    proxy.answer("GET /status", 200, &status("drained", "the last stream has ended"));
    until("its end", || terminal.shows("code-0") == 1);
    assert_eq!(terminal.shows("drained: the last stream has ended"), 1);
}
