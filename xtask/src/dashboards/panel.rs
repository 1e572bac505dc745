//! Dashboards, panels and queries, from which `json` makes Grafana's JSON.

/// A dashboard: one question of an operator and the panels that answer it.
pub struct Dashboard {
    /// Name of the file, and last part of the uid (`fabriclens-overview`).
    pub name: &'static str,
    /// Shown at the top and in lists.
    pub title: &'static str,
    /// The question that it answers, and where to go from there.
    pub description: &'static str,
    /// Begin of the default time range.
    pub since: &'static str,
    /// Variables, in addition to the data source.
    pub vars: Vec<Var>,
    pub rows: Vec<Row>,
}

/// A row of panels with a title.
pub struct Row {
    pub title: &'static str,
    pub panels: Vec<Panel>,
}

pub fn row(title: &'static str, panels: Vec<Panel>) -> Row {
    Row { title, panels }
}

/// A variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Var {
    /// Switch to which a port is connected.
    Leaf,
    /// Hosts; those of the selected leaf if there is [`Var::Leaf`].
    Host,
    /// One host.
    OneHost,
    /// HCAs and NICs of the host.
    Device,
    /// One job.
    Job,
    /// Incidents in the selected time range.
    Incident,
    /// Switches whose ports are known.
    Switch,
}

/// Unit of the values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// 0 to 1, shown as percent.
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

/// Kind of panel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum View {
    /// Lines over time.
    Lines,
    /// Stacked areas over time.
    Stacked,
    /// The last value of each series as a large number.
    Stat,
    /// A bar per series, in the order of the query.
    Bars,
    /// Labels and values at the end of the time range.
    Table,
    /// A row per series over time, colored by value.
    Heat,
    /// A row per series over time, of states.
    States,
}

/// PromQL, and the legend of its series (`{{host}} {{device}}`) or the title of its table column.
pub struct Query {
    pub expr: String,
    pub legend: &'static str,
}

/// Target of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// Congestion below the switch in the label `switch`.
    Leaf,
    /// The host in the label `host`.
    Host,
    /// The port in the labels `host` and `device`.
    Port,
    /// The job in the label `job_id`.
    Job,
    /// The storm timeline of the incident in the label `id`.
    Incident,
    /// The switch in the label `host`.
    Switch,
}

/// A color from a value on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ColorStep {
    pub at: f64,
    pub color: &'static str,
    /// Name of the detector threshold in docs/verdicts.md, if it is one.
    pub threshold: Option<&'static str>,
}

/// One panel.
pub struct Panel {
    pub title: &'static str,
    /// What the panel shows, and what to do if it is bad.
    pub description: &'static str,
    pub view: View,
    pub unit: Unit,
    pub queries: Vec<Query>,
    pub thresholds: Vec<ColorStep>,
    pub links: Vec<Link>,
    /// Columns, of 24.
    pub width: u32,
    pub height: u32,
    pub max: Option<f64>,
    /// Value mappings: value, text and color.
    pub mappings: &'static [(&'static str, &'static str, &'static str)],
    /// Text without data.
    pub no_data: Option<&'static str>,
    /// Series whose legend has this word are drawn below the axis.
    pub mirrored: Option<&'static str>,
    /// A healthy fabric has no series.
    pub empty_is_good: bool,
}

impl Panel {
    fn new(view: View, title: &'static str, unit: Unit, width: u32, height: u32) -> Self {
        Self {
            title,
            description: "",
            view,
            unit,
            queries: Vec::new(),
            thresholds: Vec::new(),
            links: Vec::new(),
            width,
            height,
            max: None,
            mappings: &[],
            no_data: None,
            mirrored: None,
            empty_is_good: false,
        }
    }

    pub fn description(self, description: &'static str) -> Self {
        Self { description, ..self }
    }

    pub fn query(mut self, expr: impl Into<String>, legend: &'static str) -> Self {
        self.queries.push(Query { expr: expr.into(), legend });
        self
    }

    /// A color from a detector threshold on.
    pub fn detector_threshold(mut self, threshold: super::thresholds::Threshold, color: &'static str) -> Self {
        self.thresholds.push(ColorStep { at: threshold.at, color, threshold: Some(threshold.name) });
        self
    }

    /// A color from a value on that is no detector threshold.
    pub fn threshold(mut self, at: f64, color: &'static str) -> Self {
        self.thresholds.push(ColorStep { at, color, threshold: None });
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

    pub fn mappings(self, mappings: &'static [(&'static str, &'static str, &'static str)]) -> Self {
        Self { mappings, ..self }
    }

    /// Text without data, of a panel that is empty on a healthy fabric.
    pub fn no_data(self, text: &'static str) -> Self {
        Self { no_data: Some(text), empty_is_good: true, ..self }
    }

    /// Draws series with this word in their legend below the axis.
    pub fn mirrored(self, word: &'static str) -> Self {
        Self { mirrored: Some(word), ..self }
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
