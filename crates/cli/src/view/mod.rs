//! What a person sees while a job runs: a live view on a terminal, plain lines elsewhere.

mod frame;
mod live;
mod meter;
mod plain;
mod report;
mod terminal;
mod web;

use std::io::IsTerminal;
use std::time::Duration;

use vstream_serve::JobPage;
use vstream_settings::{JobSettings, VectorSource};

use crate::jvm::Progress;
use crate::text;
use live::Live;
use meter::Meter;
use plain::Plain;

pub(crate) use report::report;
pub(crate) use terminal::{width, Glyphs};

/// What a job is about to do, as far as a view needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    /// One line that says what is going on.
    pub(crate) title: String,
    /// Partitions.
    pub(crate) parallelism: u32,
    /// Vectors before the measured phase.
    pub(crate) preload: u64,
    /// Where the measured phase ends.
    pub(crate) goal: Goal,
    /// Recall that answers aim at.
    pub(crate) recall_target: f64,
}

/// Where the measured phase ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    /// After this many records.
    Records(u64),
    /// After this many seconds.
    Seconds(f64),
    /// With the input; how far that is, nobody knows.
    EndOfInput,
}

impl Scene {
    pub(crate) fn of(job: &JobSettings, title: String) -> Scene {
        let (preload, goal) = match job.vectors {
            VectorSource::Generator { preload, limit, .. } => match job.workload.duration {
                _ if limit > 0 => (preload, Goal::Records(limit)),
                duration => (preload, Goal::Seconds(duration as f64 / 1000.0)),
            },
            VectorSource::File { .. } | VectorSource::Kafka(_) => (0, Goal::EndOfInput),
        };
        let recall_target = job.collection.recall_target;
        Scene { title, parallelism: job.parallelism, preload, goal, recall_target }
    }
}

/// Shows progress on the error output.
pub(crate) struct View {
    meter: Meter,
    /// One line below the picture of a live view.
    footer: String,
    display: Display,
    page: Option<JobPage>,
}

enum Display {
    Live(Live),
    Plain(Plain),
}

impl View {
    /// A live view if the error output is a terminal and `answers_on_terminal` does not get in its
    /// way; else one line every `interval`.
    pub(crate) fn start(scene: Scene, interval: Duration, answers_on_terminal: bool) -> View {
        let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        let live = std::io::stderr().is_terminal() && !dumb && !answers_on_terminal;
        let display = if live {
            Display::Live(Live::start(Glyphs::of_environment()))
        } else {
            text::note_line(&scene.title);
            Display::Plain(Plain::new(interval))
        };
        let meter = Meter::new(scene);
        let mut view = View { meter, footer: String::new(), display, page: None };
        // Java needs a second or two before it has anything to say.
        if let Display::Live(live) = &mut view.display {
            live.draw(&view.meter, &view.footer);
        }
        view
    }

    /// Shows progress on a page, too, until the view ends.
    pub(crate) fn with_page(self, page: Option<JobPage>) -> View {
        View { page, ..self }
    }

    /// Sets the line below the picture; it is seen with the next progress.
    pub(crate) fn set_footer(&mut self, footer: String) {
        self.footer = footer;
    }

    /// Takes in a progress message and shows it when it is time.
    pub(crate) fn show(&mut self, progress: Progress) {
        self.meter.take(progress);
        match &mut self.display {
            Display::Live(live) => live.draw(&self.meter, &self.footer),
            Display::Plain(plain) => plain.print(&self.meter),
        }
        self.tell_page(false);
    }

    /// Tells the page that the job has ended.
    pub(crate) fn end(&self) {
        self.tell_page(true);
    }

    fn tell_page(&self, has_ended: bool) {
        if let Some(page) = self.page.as_ref().filter(|page| page.is_watched()) {
            page.show(web::figures(&self.meter, has_ended, page.asks()));
        }
    }
}
