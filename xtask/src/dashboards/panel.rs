//! What a dashboard is made of, in the words of this repository; `json` says it in Grafana's.

/// One question that an operator asks, and the panels that answer it.
pub struct Dashboard {
    /// Last part of the name: of the file, and of the address in Grafana (`fabriclens-overview`).
    pub name: &'static str,
    /// Shown at the top and in lists.
    pub title: &'static str,
    /// What it answers, and where to go from there.
    pub says: &'static str,
    /// How far back it shows at first.
    pub since: &'static str,
    /// What can be chosen at the top, beside the data source.
    pub vars: Vec<Var>,
    pub rows: Vec<Row>,
}

/// A headline and what is below it.
pub struct Row {
    pub title: &'static str,
    pub panels: Vec<Panel>,
}

pub fn row(title: &'static str, panels: Vec<Panel>) -> Row {
    Row { title, panels }
}

/// What can be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Var {
    /// Switches that ports say they are wired to.
    Leaf,
    /// Hosts, those of the leaf where one is chosen.
    Host,
    /// One host.
    OneHost,
    /// HCAs and NICs of the host; where rails are kept apart, their names are the rails'.
    Device,
    /// One job.
    Job,
    /// Incidents of the time that is shown.
    Incident,
}

/// How numbers are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// 0 to 1, as per cent.
    Share,
    BitsPerSecond,
    Bytes,
    PerSecond,
    Packets,
    Seconds,
    Celsius,
    Dbm,
    Count,
}

/// How a panel looks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum View {
    /// Lines over time.
    Lines,
    /// The same, stacked.
    Stacked,
    /// One large number a series, the last one.
    Stat,
    /// A bar a series, longest first as the query gives them.
    Bars,
    /// Rows of labels and values, of the last instant.
    Table,
    /// A row a series over time, coloured by value.
    Heat,
    /// A row a series over time, of states.
    States,
}

/// PromQL, and what a series of it is called (`{{host}} {{device}}`); for tables, the title of its column.
pub struct Query {
    pub expr: String,
    pub legend: &'static str,
}

/// Where a click leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// Congestion of what is below the switch in `switch`.
    Leaf,
    /// The host in `host`, and its device where there is one.
    Host,
    Port,
    /// The job in `job_id`.
    Job,
    /// The storm timeline of the incident in `id`.
    Incident,
}

/// From here on, this colour.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Step {
    pub at: f64,
    pub colour: &'static str,
    /// The detectors' number it is, by its name in docs/verdicts.md.
    pub limit: Option<&'static str>,
}

/// One panel.
pub struct Panel {
    pub title: &'static str,
    /// What is seen, and what to do when it is bad.
    pub says: &'static str,
    pub view: View,
    pub unit: Unit,
    pub queries: Vec<Query>,
    pub steps: Vec<Step>,
    pub links: Vec<Link>,
    /// Of 24.
    pub width: u32,
    pub height: u32,
    pub max: Option<f64>,
    /// Words for values: states, and what "none" means in a stat.
    pub words: &'static [(&'static str, &'static str, &'static str)],
    /// Said where the query gives nothing.
    pub none: Option<&'static str>,
    /// Beside this one, that is read the other way: series whose legend has this word are drawn downwards.
    pub down: Option<&'static str>,
    /// Nothing to see is good news: no series while all is well.
    pub quiet: bool,
}

impl Panel {
    fn new(view: View, title: &'static str, unit: Unit, width: u32, height: u32) -> Self {
        Self {
            title,
            says: "",
            view,
            unit,
            queries: Vec::new(),
            steps: Vec::new(),
            links: Vec::new(),
            width,
            height,
            max: None,
            words: &[],
            none: None,
            down: None,
            quiet: false,
        }
    }

    pub fn says(self, says: &'static str) -> Self {
        Self { says, ..self }
    }

    pub fn ask(mut self, expr: impl Into<String>, legend: &'static str) -> Self {
        self.queries.push(Query { expr: expr.into(), legend });
        self
    }

    /// From `limit` on it is bad, as the detectors have it.
    pub fn limit(mut self, limit: super::limits::Limit, colour: &'static str) -> Self {
        self.steps.push(Step { at: limit.at, colour, limit: Some(limit.name) });
        self
    }

    /// A step of our own, where no detector has one.
    pub fn step(mut self, at: f64, colour: &'static str) -> Self {
        self.steps.push(Step { at, colour, limit: None });
        self
    }

    pub fn link(mut self, link: Link) -> Self {
        self.links.push(link);
        self
    }

    pub fn wide(self, width: u32) -> Self {
        Self { width, ..self }
    }

    pub fn high(self, height: u32) -> Self {
        Self { height, ..self }
    }

    pub fn max(self, max: f64) -> Self {
        Self { max: Some(max), ..self }
    }

    pub fn words(self, words: &'static [(&'static str, &'static str, &'static str)]) -> Self {
        Self { words, ..self }
    }

    /// While all is well there are no series, and this is said.
    pub fn none(self, text: &'static str) -> Self {
        Self { none: Some(text), quiet: true, ..self }
    }

    pub fn down(self, word: &'static str) -> Self {
        Self { down: Some(word), ..self }
    }
}

pub fn lines(title: &'static str, unit: Unit) -> Panel {
    Panel::new(View::Lines, title, unit, 12, 8)
}
pub fn stacked(title: &'static str, unit: Unit) -> Panel {
    Panel::new(View::Stacked, title, unit, 12, 8)
}
pub fn stat(title: &'static str, unit: Unit) -> Panel {
    Panel::new(View::Stat, title, unit, 4, 4)
}
pub fn bars(title: &'static str, unit: Unit) -> Panel {
    Panel::new(View::Bars, title, unit, 12, 8)
}
pub fn table(title: &'static str, unit: Unit) -> Panel {
    Panel::new(View::Table, title, unit, 24, 8)
}
pub fn heat(title: &'static str, unit: Unit) -> Panel {
    Panel::new(View::Heat, title, unit, 12, 9)
}
pub fn states(title: &'static str) -> Panel {
    Panel::new(View::States, title, Unit::Count, 24, 8)
}
