//! A headless Chromium, asked over its debugging pipe.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// One page at a time, and every word on its console.
pub(crate) struct Browser {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    asked: u64,
    /// Of the tab.
    session: Option<String>,
    console: Vec<String>,
    /// What [`Browser::prepare`] was told last.
    prepared: Option<Value>,
    /// Of the worker that began last.
    worker: Option<String>,
}

impl Browser {
    /// With its profile in `dir`; `None` where there is none and none is required.
    pub(crate) fn start(dir: &Path) -> Option<Browser> {
        let all = ["/usr/bin/chromium", "/usr/bin/chromium-browser"];
        let Some(program) = all.into_iter().find(|path| Path::new(path).exists()) else {
            eprintln!("skipped: no chromium (`script/setup --tests` installs it on Debian)");
            assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "it is required here");
            return None;
        };
        let profile = format!("--user-data-dir={}", dir.join("profile").display());
        // It reads requests from descriptor 3 and answers on 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", program])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--disable-background-networking", &profile])
            .arg("--remote-debugging-pipe")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let requests = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let console = Vec::new();
        let (session, prepared, worker) = (None, None, None);
        let mut browser =
            Browser { child, requests, answers, asked: 0, session, console, prepared, worker };
        let tab = browser.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": tab["targetId"], "flatten": true });
        let session = browser.ask("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Its answer to a request; what it says on its own meanwhile is noted.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let mut request = json!({ "id": self.asked, "method": method, "params": params });
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        self.requests.write_all(format!("{request}\0").as_bytes()).unwrap();
        loop {
            let told = self.hear();
            if told["id"] == self.asked {
                assert!(told["error"].is_null(), "{method}: {told}");
                return told["result"].clone();
            }
        }
    }

    fn hear(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.answers.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "the browser is gone");
        let told: Value = serde_json::from_slice(&bytes).unwrap();
        if told["method"] == "Target.attachedToTarget" {
            self.worker = told["params"]["sessionId"].as_str().map(str::to_owned);
        }
        let is_said = ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"];
        if is_said.iter().any(|method| told["method"] == **method) {
            self.console.push(told["params"].to_string());
        }
        told
    }

    /// Shows a page in a window of this size, and waits until it is loaded.
    pub(crate) fn open(&mut self, url: &str, (width, height): (u32, u32)) {
        let mobile = width < 600;
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile });
        self.ask("Emulation.setDeviceMetricsOverride", size);
        // Another fragment alone would load nothing.
        self.ask("Page.navigate", json!({ "url": "about:blank" }));
        let went = self.ask("Page.navigate", json!({ "url": url }));
        assert!(went["errorText"].is_null(), "{url}: {went}");
        self.eval(
            "new Promise(done => document.readyState === 'complete' ? done()
                : addEventListener('load', done))",
        );
    }

    /// Shows pages as a `screen` has them or as they are printed, in a `light` or a `dark` scheme.
    pub(crate) fn media(&mut self, media: &str, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.ask("Emulation.setEmulatedMedia", json!({ "media": media, "features": features }));
    }

    /// The value of an expression, or of its promise.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let how = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.ask("Runtime.evaluate", how);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Runs a line of JavaScript before anything of each page that is opened from now on, in place of the last.
    pub(crate) fn prepare(&mut self, line: &str) {
        if let Some(last) = self.prepared.take() {
            self.ask("Page.removeScriptToEvaluateOnNewDocument", json!({ "identifier": last }));
        }
        let made = self.ask("Page.addScriptToEvaluateOnNewDocument", json!({ "source": line }));
        self.prepared = Some(made["identifier"].clone());
    }

    /// What a screen reader is told of all that the keyboard reaches: role and name.
    pub(crate) fn accessible(&mut self) -> Vec<Value> {
        let tree = self.ask("Accessibility.getFullAXTree", json!({}));
        let is_reached = |node: &&Value| {
            let mut properties = node["properties"].as_array().into_iter().flatten();
            properties.any(|it| it["name"] == "focusable" && it["value"]["value"] == true)
        };
        let told = |node: &Value| {
            let name = node["name"]["value"].as_str().unwrap_or_default();
            json!({ "role": node["role"]["value"], "name": name })
        };
        tree["nodes"].as_array().unwrap().iter().filter(is_reached).map(told).collect()
    }

    /// Has an eye on workers, too.
    pub(crate) fn attach_to_workers(&mut self) {
        let how = json!({ "autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true });
        self.ask("Target.setAutoAttach", how);
    }

    /// The value of an expression in the worker that began last.
    pub(crate) fn eval_in_worker(&mut self, expression: &str) -> Value {
        let worker = self.worker.clone().expect("a worker has begun");
        let page = self.session.replace(worker);
        let value = self.eval(expression);
        self.session = page;
        value
    }

    /// What the console said so far.
    pub(crate) fn console(&self) -> &[String] {
        &self.console
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
