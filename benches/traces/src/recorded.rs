//! The traces that come along.

use crate::{Error, Trace};

/// Names, and files as `convert-trace` made them.
const RECORDED: [(&str, &[u8]); 5] = [
    ("gpt", include_bytes!("../recorded/gpt.trace.gz")),
    ("resnet", include_bytes!("../recorded/resnet.trace.gz")),
    ("llama_gen", include_bytes!("../recorded/llama_gen.trace.gz")),
    ("gnn", include_bytes!("../recorded/gnn.trace.gz")),
    ("dataframe", include_bytes!("../recorded/dataframe.trace.gz")),
];

impl Trace {
    /// The traces recorded from PyTorch that come along; `README.md` says what they are of.
    ///
    /// # Errors
    /// None, unless the files were damaged before they were compiled in.
    pub fn recorded() -> Result<Vec<Self>, Error> {
        RECORDED.iter().map(|(name, file)| Self::read(*name, *file)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;

    /// As counted in what they were made of: name, streams, events, frees, and the most bytes live.
    const EXPECTED: [(&str, u32, usize, usize, u64); 5] = [
        ("gpt", 1, 34_423, 17_210, 8_965_960_260),
        ("resnet", 1, 14_320, 7_160, 3_780_333_200),
        ("llama_gen", 1, 111_756, 55_878, 430_639_984),
        ("gnn", 1, 31_084, 15_542, 2_191_016_152),
        ("dataframe", 2, 6_720, 3_360, 180_471_948),
    ];

    #[test]
    fn the_recorded_traces_are_whole() {
        let found: Vec<_> = Trace::recorded()
            .unwrap()
            .into_iter()
            .map(|trace| {
                let frees = trace.events.iter().filter(|event| matches!(event, Event::Free { .. })).count();
                (trace.name.clone(), trace.streams, trace.events.len(), frees, trace.peak_live())
            })
            .collect();
        let expected = EXPECTED.map(|(name, streams, events, frees, peak)| (name.into(), streams, events, frees, peak));
        assert_eq!(found, expected);
    }
}
