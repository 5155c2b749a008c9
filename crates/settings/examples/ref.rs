fn main(){print!("{}\n", vstream_settings::JobSettings::reference().trim_end())}
