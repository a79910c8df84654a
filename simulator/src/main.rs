//! The simulator as a program.

use std::error::Error;
use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use cloud_simulator::model::DEFAULT_SEED;
use cloud_simulator::readings::{
    FailReason, FailedCreate, FailureShape, HttpStatus, ListOrder, ListRows, PasswordSpecials,
    PowerAfterReinstall, ReleaseWhileCreating, ResultWhileProcessing, RowCount, TaskId,
    UnseenRegion,
};
use cloud_simulator::wire::Endpoint;
use cloud_simulator::{Builder, Readings, Simulator, Verb, catalogue};
use tokio::signal::unix::{SignalKind, signal};

/// Simulates the cloud-server management service on this machine, completely as specified.
#[derive(Debug, Parser)]
#[command(name = "cloud-simulator", version)]
struct Options {
    /// Address on which the service listens.
    #[arg(long, env = "SIMULATOR_LISTEN", default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
    /// Address on which the control port listens. It requires no token, so keep it on loopback. Off if absent.
    #[arg(long, env = "SIMULATOR_CONTROL")]
    control: Option<SocketAddr>,
    /// File that stores the state. Without a file the state is lost when the process ends.
    #[arg(long, env = "SIMULATOR_DATA")]
    data: Option<PathBuf>,
    /// Seed of everything that appears random.
    #[arg(long, env = "SIMULATOR_SEED", default_value_t = DEFAULT_SEED)]
    seed: u64,
    /// Duration of operations in seconds; fractions are allowed.
    #[arg(long, env = "SIMULATOR_TASK_SECONDS", default_value = "3", value_parser = seconds)]
    task_seconds: Duration,
    /// Duration of one operation, for example `create=20`. May be repeated, or separated by commas.
    #[arg(long, env = "SIMULATOR_VERB_SECONDS", value_delimiter = ',', value_parser = verb_seconds)]
    verb_seconds: Vec<(Verb, Duration)>,
    /// API token of the default account. Derived from the seed if absent.
    #[arg(long, env = "SIMULATOR_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Another path for an endpoint, for example `create=/v9/make`. May be repeated, or separated by commas.
    #[arg(long, env = "SIMULATOR_PATH", value_delimiter = ',', value_parser = path)]
    path: Vec<(Endpoint, String)>,
    #[command(flatten)]
    readings: ReadingOptions,
}

/// How the simulator answers questions that the specification leaves open.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Readings of the specification")]
struct ReadingOptions {
    /// Everything that clients of the service report (field notes 21 to 33). The flags below override single readings.
    #[arg(long, env = "SIMULATOR_AS_REPORTED")]
    as_reported: bool,
    /// The place of the task id in the answer of an accepted operation.
    #[arg(long, env = "SIMULATOR_TASK_ID", value_enum)]
    task_id: Option<TaskId>,
    /// The HTTP status of successful answers.
    #[arg(long, env = "SIMULATOR_HTTP_STATUS", value_enum)]
    http_status: Option<HttpStatus>,
    /// The fields in a row of the instance list.
    #[arg(long, env = "SIMULATOR_LIST_ROWS", value_enum)]
    list_rows: Option<ListRows>,
    /// The meaning of rowCount in a listing.
    #[arg(long, env = "SIMULATOR_ROW_COUNT", value_enum)]
    row_count: Option<RowCount>,
    /// The order of the instance list.
    #[arg(long, env = "SIMULATOR_LIST_ORDER", value_enum)]
    list_order: Option<ListOrder>,
    /// Refuse a reinstall unless the instance is STOPPED.
    #[arg(long, env = "SIMULATOR_REINSTALL_NEEDS_STOP")]
    reinstall_needs_stop: bool,
    /// The power state after a reinstall.
    #[arg(long, env = "SIMULATOR_POWER_AFTER_REINSTALL", value_enum)]
    power_after_reinstall: Option<PowerAfterReinstall>,
    /// How long the listing omits a new instance, in seconds.
    #[arg(long, env = "SIMULATOR_VISIBLE_LATE", value_parser = seconds)]
    visible_late: Option<Duration>,
    /// Detail also reports an instance as not found until the listing shows it.
    #[arg(long, env = "SIMULATOR_DETAIL_LATE")]
    detail_late: bool,
    /// New ids contain characters that a URL must encode.
    #[arg(long, env = "SIMULATOR_AWKWARD_IDS")]
    awkward_ids: bool,
    /// usedFlow and cpuLoad (which is not in the specification) grow at every read.
    #[arg(long, env = "SIMULATOR_USED_FLOW_GROWS")]
    used_flow_grows: bool,
    /// The remains of a failed create.
    #[arg(long, env = "SIMULATOR_FAILED_CREATE", value_enum)]
    failed_create: Option<FailedCreate>,
    /// The answer to a release that arrives while the create task runs.
    #[arg(long, env = "SIMULATOR_RELEASE_WHILE_CREATING", value_enum)]
    release_while_creating: Option<ReleaseWhileCreating>,
    /// How the service reports "no such instance".
    #[arg(long, env = "SIMULATOR_NOT_FOUND", value_enum)]
    not_found: Option<FailureShape>,
    /// How the service reports other refusals.
    #[arg(long, env = "SIMULATOR_REFUSALS", value_enum)]
    refusals: Option<FailureShape>,
    /// A create may leave out firewallUUID.
    #[arg(long, env = "SIMULATOR_FIREWALL_OPTIONAL")]
    firewall_optional: bool,
    /// A create or reinstall with a key pair must also contain a password.
    #[arg(long, env = "SIMULATOR_KEY_NEEDS_PASSWORD")]
    key_needs_password: bool,
    /// How many special characters a password may have.
    #[arg(long, env = "SIMULATOR_PASSWORD_SPECIALS", value_enum)]
    password_specials: Option<PasswordSpecials>,
    /// Each region has only one zone, named <region>-a.
    #[arg(long, env = "SIMULATOR_ONE_ZONE")]
    one_zone: bool,
    /// How long publicIpAddress stays empty after the create task ended, in seconds.
    #[arg(long, env = "SIMULATOR_ADDRESS_LATE", value_parser = seconds)]
    address_late: Option<Duration>,
    /// Rows of the instance list show an expireTime this many seconds after the create. Nothing happens at that time.
    #[arg(long, env = "SIMULATOR_EXPIRES_AFTER", value_parser = seconds)]
    expires_after: Option<Duration>,
    /// Rows of the instance list contain osName and osVersionDetail.
    #[arg(long, env = "SIMULATOR_OS_IN_ROWS")]
    os_in_rows: bool,
    /// Hours by which the service's times are ahead of UTC.
    #[arg(long, env = "SIMULATOR_UTC_OFFSET_HOURS", value_parser = clap::value_parser!(i8).range(-12..=14), allow_hyphen_values = true)]
    utc_offset_hours: Option<i8>,
    /// A successful answer contains a numeric code of 200.
    #[arg(long, env = "SIMULATOR_SUCCESS_CODE")]
    success_code: bool,
    /// How the service answers a listing of a region that the account's token may not see.
    #[arg(long, env = "SIMULATOR_UNSEEN_REGION", value_enum)]
    unseen_region: Option<UnseenRegion>,
    /// The value of processResult while a task runs.
    #[arg(long, env = "SIMULATOR_RESULT_WHILE_PROCESSING", value_enum)]
    result_while_processing: Option<ResultWhileProcessing>,
    /// The field that contains the reason of a failed task.
    #[arg(long, env = "SIMULATOR_FAIL_REASON", value_enum)]
    fail_reason: Option<FailReason>,
    /// How long a task can be queried after its end, in seconds. Forever if absent.
    #[arg(long, env = "SIMULATOR_TASK_KEPT", value_parser = seconds)]
    task_kept: Option<Duration>,
}

impl From<ReadingOptions> for Readings {
    fn from(given: ReadingOptions) -> Self {
        let usual = if given.as_reported {
            Self::as_reported()
        } else {
            Self::default()
        };
        Self {
            task_id: given.task_id.unwrap_or(usual.task_id),
            http_status: given.http_status.unwrap_or(usual.http_status),
            list_rows: given.list_rows.unwrap_or(usual.list_rows),
            row_count: given.row_count.unwrap_or(usual.row_count),
            list_order: given.list_order.unwrap_or(usual.list_order),
            reinstall_needs_stop: given.reinstall_needs_stop || usual.reinstall_needs_stop,
            power_after_reinstall: given
                .power_after_reinstall
                .unwrap_or(usual.power_after_reinstall),
            visible_late: given.visible_late.unwrap_or(usual.visible_late),
            detail_late: given.detail_late,
            awkward_ids: given.awkward_ids,
            used_flow_grows: given.used_flow_grows,
            failed_create: given.failed_create.unwrap_or(usual.failed_create),
            release_while_creating: given
                .release_while_creating
                .unwrap_or(usual.release_while_creating),
            not_found: given.not_found.unwrap_or(usual.not_found),
            refusals: given.refusals.unwrap_or(usual.refusals),
            firewall_optional: given.firewall_optional || usual.firewall_optional,
            key_needs_password: given.key_needs_password,
            password_specials: given.password_specials.unwrap_or(usual.password_specials),
            one_zone: given.one_zone || usual.one_zone,
            address_late: given.address_late.unwrap_or(usual.address_late),
            expires_after: given.expires_after.or(usual.expires_after),
            os_in_rows: given.os_in_rows || usual.os_in_rows,
            utc_offset_hours: given.utc_offset_hours.unwrap_or(usual.utc_offset_hours),
            success_code: given.success_code || usual.success_code,
            unseen_region: given.unseen_region.unwrap_or(usual.unseen_region),
            result_while_processing: given
                .result_while_processing
                .unwrap_or(usual.result_while_processing),
            fail_reason: given.fail_reason.unwrap_or(usual.fail_reason),
            task_kept: given.task_kept,
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| format!("{text} is no number"))?;
    Duration::try_from_secs_f64(number).map_err(|error| error.to_string())
}

fn verb_seconds(text: &str) -> Result<(Verb, Duration), String> {
    let (verb, time) = text.split_once('=').ok_or("write it as create=20")?;
    let verb = <Verb as clap::ValueEnum>::from_str(verb.trim(), true)?;
    Ok((verb, seconds(time.trim())?))
}

fn path(text: &str) -> Result<(Endpoint, String), String> {
    let (endpoint, path) = text
        .split_once('=')
        .filter(|(_, path)| path.trim().starts_with('/'))
        .ok_or("write it as create=/v9/make")?;
    let endpoint = <Endpoint as clap::ValueEnum>::from_str(endpoint.trim(), true)?;
    Ok((endpoint, path.trim().to_owned()))
}

impl From<Options> for Builder {
    fn from(options: Options) -> Self {
        let mut builder = Simulator::builder()
            .seed(options.seed)
            .listen(options.listen)
            .task_duration(options.task_seconds)
            .readings(options.readings.into());
        for (verb, time) in options.verb_seconds {
            builder = builder.verb_duration(verb, time);
        }
        for (endpoint, path) in options.path {
            builder = builder.path(endpoint, &path);
        }
        if let Some(address) = options.control {
            builder = builder.control(address);
        }
        if let Some(path) = options.data {
            builder = builder.file(path);
        }
        if let Some(token) = options.token {
            builder = builder.token(&token);
        }
        builder
    }
}

fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info")))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    match run(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut message = format!("cloud-simulator: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                message.push_str(&format!(": {error}"));
                cause = error.source();
            }
            // If this fails too, the error cannot be reported anywhere else.
            writeln!(std::io::stderr(), "{message}").ok();
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    // Installed before the port opens, since a caller may send the signal as soon as it has read the address.
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let kept = options.data.clone();
    let simulator = Builder::from(options).start().await?;
    greet(&simulator, kept.as_deref());
    tokio::select! {
        _ = terminated.recv() => {}
        _ = interrupted.recv() => {}
    }
    tracing::info!("stopping");
    simulator.stop().await;
    Ok(())
}

/// Prints address and token. A closed output is no reason to stop serving.
fn greet(simulator: &Simulator, kept: Option<&std::path::Path>) {
    let known = catalogue::example();
    let (url, token) = (simulator.url(), simulator.token());
    let control = simulator
        .control_url()
        .unwrap_or("off (--control 127.0.0.1:8091)");
    let kept = kept.map_or_else(
        || "in memory only".to_owned(),
        |path| path.display().to_string(),
    );
    let text = format!(
        "The cloud simulator is ready.\n\n\
         \x20 endpoint   {url}\n\
         \x20 token      {token}\n\
         \x20 control    {control}\n\
         \x20 state      {kept}\n\n\
         \x20 region     {region}\n\
         \x20 zone       {zone}\n\
         \x20 package    {package}   or   {other_package}\n\
         \x20 image      {image}   (Ubuntu 24.04)   or   {other_image}   (Debian 12)\n\
         \x20 firewall   {firewall}\n\
         \x20 key pair   {key}\n\n\
         \x20 curl -H 'x-open-token: {token}' {url}/region/list\n",
        region = known.region,
        zone = known.zone,
        package = known.package,
        other_package = known.other_package,
        image = known.image,
        other_image = known.other_image,
        firewall = known.firewall,
        key = known.key,
    );
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .ok();
}
