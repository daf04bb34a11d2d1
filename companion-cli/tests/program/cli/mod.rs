//! The program itself, run as people run it: compiling the module, looking into modules and images,
//! rendering, its help, its queries to Prometheus.

mod assess;
mod build;
mod full;
mod help;
mod hostile;
mod images;
mod modules;
mod registry;
mod render;
mod same;
mod secrets;
mod size;
mod support;
