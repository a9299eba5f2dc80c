import { Argument, Command } from 'commander'
import type { VerifyFlags } from '../capabilities/certificates/command-verify.js'
import { API_URL } from '../capabilities/site-file/command.js'
import type { ExportFlags } from '../capabilities/transfer/command-run.js'
import type { AgentFlags } from '../capabilities/tunnel/command-setup.js'
import type { OptionFlag } from '../options/load.js'
import type { AccessFlags } from './api-client.js'
import { ExitCode } from './process.js'

const START_EXAMPLES = `
Examples:
  sluice start --upstream http://127.0.0.1:3000
  sluice start --files ./public
  sluice start --upstream http://127.0.0.1:3000 --policy policy.yaml --listen 0.0.0.0:8080
  sluice start sites.yaml --api 127.0.0.1:4040
  sluice start --config sluice.yaml
  SLUICE_LIMITS_HEADERS=100 sluice start --upstream http://127.0.0.1:3000 --data :memory:
  sluice start --config sluice.yaml --take-over

Flags override environment variables, and these override the options file. Saving a policy, site file or options file reloads it
without a restart, and so does SIGHUP. A file with errors is reported, and the running configuration stays. SIGINT and SIGTERM stop
accepting connections, finish open requests (timeouts.drain) and exit.

--take-over replaces the process that runs on the same data folder without dropping connections. The new process inherits its
sockets, the store, session tickets and rate-limit counters; the old one drains and exits. If the new process fails, the old one
keeps running. Linux only.`

/** Flags that set an option: name, argument, path of the option, description. */
const FLAGS = [
  ['upstream', 'url', 'upstream', 'upstream for all traffic: http(s)://host:port, or host:port for http'],
  ['files', 'folder', 'files', 'folder to serve in place of an upstream'],
  ['policy', 'file', 'policy', 'traffic policy file for this upstream'],
  ['listen', 'host:port', 'listen', 'address that accepts traffic, or "off" (default: 127.0.0.1:8080)'],
  ['api', 'host:port', 'api.listen', 'address of the management API and dashboard (default: 127.0.0.1:4040)'],
  ['agents', 'host:port', 'agents', 'address that accepts tunnel agents (default: none)'],
  ['data', 'folder', 'data', 'data folder; ":memory:" stores nothing on disk (default: ./data)'],
  ['store', 'address', 'store', 'database: a SQLite file, ":memory:" or postgres://… (default: <data>/sluice.db)']
] as const

type StartFlags = Partial<Record<(typeof FLAGS)[number][0] | 'config', string>> & {
  demo?: boolean
  cache: boolean
  newSealKey?: boolean
  newStore?: boolean
  takeOver?: boolean
}

/** `sluice start`: runs the proxy in the foreground until a signal ends it. */
export function startCommand(): Command {
  const command = new Command('start')
    .description('run the proxy in the foreground')
    .argument('[site-file]', 'site file: sites, backends, certificates, policies and listeners')
    .option('--config <file>', 'options file; config/sluice.yaml lists every option')
  for (const [name, argument, , description] of FLAGS) command.option(`--${name} <${argument}>`, description)
  return command
    .option('--no-cache', 'keep no local copy of the configuration for starts without the store')
    .option('--demo', 'without an upstream: start a demo upstream and serve config/demo.yaml')
    .option('--new-seal-key', 'the sealing key is lost: use or create another; secrets must be entered again')
    .option('--new-store', 'create an empty store although the data folder has the copy of another one')
    .option('--take-over', 'replace the process that runs on the same data folder, without dropping connections')
    .addHelpText('after', START_EXAMPLES)
    .action(async (siteFile: string | undefined, given: StartFlags) => {
      const { serve } = await import('./serve.js')
      process.exitCode = await serve({
        flags: flagsOf(given, siteFile),
        demo: given.demo === true,
        newSealKey: given.newSealKey === true,
        newStore: given.newStore === true,
        takeOver: given.takeOver === true,
        ...(given.config === undefined ? {} : { config: given.config })
      })
    })
}

const DOCTOR_EXAMPLES = `
Examples:
  sluice doctor --config sluice.yaml
  sluice doctor sites.yaml --data /var/lib/sluice
  sluice doctor --json | jq '.findings[] | select(.status != "ok")'

Checks the data folder, keys, store, ports, upstream, certificates, clock, process limits and site file that the options name, and
says how to fix each problem. It changes nothing and can run while Sluice runs. Run it as the same user.
Exit code 0: no errors; 1: errors; 2: the options cannot be read.`

type DoctorFlags = Partial<Record<(typeof FLAGS)[number][0] | 'config', string>> & { json?: boolean }

/** `sluice doctor`: looks at everything that a start needs. */
export function doctorCommand(): Command {
  const command = new Command('doctor')
    .description('check the installation (ports, store, keys, certificates, clock) and suggest fixes')
    .argument('[site-file]', 'site file that the process starts with')
    .option('--config <file>', 'options file that the process starts with')
    .option('--json', 'print one JSON object with all findings')
  for (const [name, argument, , description] of FLAGS) command.option(`--${name} <${argument}>`, description)
  return command
    .addHelpText('after', DOCTOR_EXAMPLES)
    .action(async (siteFile: string | undefined, { json, ...given }: DoctorFlags) => {
      const { doctor } = await import('./doctor.js')
      const flags = flagsOf({ ...given, cache: true }, siteFile)
      const config = given.config === undefined ? {} : { config: given.config }
      process.exitCode = await doctor({ flags, json: json === true, ...config })
    })
}

function flagsOf(given: StartFlags, siteFile: string | undefined): OptionFlag[] {
  const flags: OptionFlag[] = FLAGS.flatMap(([name, , option]) => {
    const text = given[name]
    return text === undefined ? [] : [{ flag: `--${name}`, option, text }]
  })
  if (siteFile !== undefined) flags.push({ flag: 'the argument', option: 'site_file', text: siteFile })
  return given.cache ? flags : [...flags, { flag: '--no-cache', option: 'cache', text: 'off' }]
}

const CHECK_EXAMPLES = `
Examples:
  sluice check policy.yaml
  sluice check policies/*.yaml
  sluice check sluice.yaml
  sluice check --json policy.yaml | jq '.errors[].message'
  kubectl get configmap policy -o jsonpath='{.data.policy}' | sluice check -

A site file is checked together with the policies, certificates and secrets that it names. Nothing is started and no server is
contacted. Exit code 0: every file is valid (warnings are allowed); 1: a file has errors.
--json prints one line for each file: {"file", "ok", "errors": [{"line", "column", "path", "code", "message"}], "warnings"}.`

/** `sluice check`: says whether policy documents are valid, and where they are not. */
export function checkCommand(): Command {
  return new Command('check')
    .description('validate policy and site files (YAML or JSON)')
    .argument('<file...>', 'files to check; "-" reads standard input')
    .option('--json', 'print one JSON object for each file')
    .addHelpText('after', CHECK_EXAMPLES)
    .action(async (files: string[], { json }: { json?: boolean }) => {
      const { checkFiles } = await import('./check-files.js')
      const valid = await checkFiles(files, {
        json: json === true,
        input: process.stdin,
        out: process.stdout,
        environment: process.env
      })
      process.exitCode = valid ? ExitCode.ok : ExitCode.failure
    })
}

const SCHEMA_EXAMPLES = `
Examples:
  sluice schema > policy.schema.json
  sluice schema options > options.schema.json
  sluice schema --site > site.schema.json

An editor with a YAML language server completes and checks a policy whose first line is
  # yaml-language-server: $schema=./policy.schema.json`

/** `sluice schema`: prints a JSON Schema for editors. */
export function schemaCommand(): Command {
  const what = new Argument('[what]', 'schema to print').choices(['policy', 'options', 'site']).default('policy')
  return new Command('schema')
    .description('print the JSON Schema of policies, the options file or site files, for editors')
    .addArgument(what)
    .option('--site', 'the same as "sluice schema site"')
    .addHelpText('after', SCHEMA_EXAMPLES)
    .action(async (wanted: string, { site }: { site?: boolean }) => {
      const schema = await (SCHEMAS[site === true ? 'site' : wanted] ?? documentSchema)()
      process.stdout.write(`${JSON.stringify(schema, undefined, 2)}\n`)
    })
}

async function documentSchema(): Promise<unknown> {
  const [{ policySchema }, { actions }] = await Promise.all([
    import('../policy/json-schema.js'),
    import('../features/registry.js')
  ])
  return policySchema(actions)
}

async function optionsFileSchema(): Promise<unknown> {
  const { publishedOptions } = await import('../options/options.js')
  return { $schema: 'https://json-schema.org/draft/2020-12/schema', ...publishedOptions() }
}

async function siteSchema(): Promise<unknown> {
  const { siteFileSchema } = await import('../capabilities/site-file/declared/schema.js')
  return siteFileSchema((await documentSchema()) as object)
}

const SCHEMAS: Readonly<Record<string, () => Promise<unknown>>> = {
  policy: documentSchema,
  options: optionsFileSchema,
  site: siteSchema
}

const EXPORT_EXAMPLES = `
Examples:
  sluice export --output account.yaml
  sluice export --data /var/lib/sluice --with-secrets --output account.yaml
  sluice export --store postgres://sluice@db/sluice > account.yaml
  sluice export --at 42 --output before.yaml

The document has every record at one revision, always in the same order. Secrets, private keys and hashes of keys are left out.
--with-secrets includes them, encrypted with a passphrase from SLUICE_PASSPHRASE or the terminal. A process may run meanwhile: the
document has what it has committed. --at exports an older revision that the history still has; the history has no secrets, so a secret that
was changed since is left out.`

/** `sluice export`: writes the whole account as one document. */
export function exportCommand(): Command {
  return new Command('export')
    .description('export all records of the API as one YAML document')
    .option('--data <folder>', 'data folder with the store and its key (default: ./data, or as in the options)')
    .option('--store <address>', 'store: a SQLite file or postgres://… (default: <data>/sluice.db)')
    .option('--config <file>', 'options file that names data folder and store')
    .option('--at <revision>', 'revision to export (default: the latest)')
    .option('--with-secrets', 'include secrets and private keys, encrypted with a passphrase')
    .option('--output <file>', 'output file, mode 0600 (default: standard output)')
    .addHelpText('after', EXPORT_EXAMPLES)
    .action(async (flags: ExportFlags) => {
      const { exportTo } = await import('../capabilities/transfer/command-run.js')
      process.exitCode = await exportTo(flags)
    })
}

const IMPORT_EXAMPLES = `
Examples:
  sluice import account.yaml --dry-run
  sluice import account.yaml
  sluice import account.yaml --prune --yes --data /var/lib/sluice
  sluice import nginx /etc/nginx/nginx.conf -o site.yaml
  SLUICE_PASSPHRASE=… sluice import account.yaml --yes --store postgres://sluice@db/sluice

Shows the changes and asks for confirmation; without a terminal, give --yes. Either everything is imported or nothing.
A document that was truncated or edited after its export needs --partial.
Records that are not in the document stay, unless --prune deletes them. Secrets that are not in the document stay as they are.
Processes on PostgreSQL serve the import within a second. Stop the process first if the store is a SQLite file.`

interface ImportFlags {
  readonly data?: string
  readonly store?: string
  readonly config?: string
  readonly dryRun?: boolean
  readonly yes?: boolean
  readonly prune?: boolean
  readonly partial?: boolean
}

/** `sluice import`: makes the account what a document says. */
export function importCommand(): Command {
  return new Command('import')
    .description('import a document of "sluice export" into a store, or convert configuration files of another server')
    .argument('<file>', 'exported document; "-" reads standard input')
    .option('--data <folder>', 'data folder with the store and its key (default: ./data, or as in the options)')
    .option('--store <address>', 'store: a SQLite file or postgres://… (default: <data>/sluice.db)')
    .option('--config <file>', 'options file that names data folder and store')
    .option('--dry-run', 'show the changes without making them')
    .option('--yes', 'do not ask for confirmation')
    .option('--prune', 'delete records that are not in the document')
    .option('--partial', 'accept a document that was truncated or edited after its export')
    .addHelpText('after', IMPORT_EXAMPLES)
    .action(async (file: string, { dryRun, yes, prune, partial, ...flags }: ImportFlags) => {
      const { importFile } = await import('../capabilities/transfer/command-run.js')
      const how = { dryRun: dryRun === true, yes: yes === true, prune: prune === true, partial: partial === true }
      process.exitCode = await importFile(file, flags, how)
    })
}

const SEAL_EXAMPLES = `
Examples:
  sluice seal rotate
  sluice seal rotate --data /var/lib/sluice
  SLUICE_SEAL_KEY=<old> SLUICE_SEAL_KEY_NEW=<new> sluice seal rotate --store postgres://sluice@db/sluice

Creates a new sealing key, encrypts every secret of the store with it, and then removes the old key. If you supply the key in
SLUICE_SEAL_KEY, put the new one into SLUICE_SEAL_KEY_NEW. Stop every process on the store first. If the command is interrupted,
run it again.`

interface SealFlags {
  readonly data?: string
  readonly store?: string
  readonly config?: string
}

/** `sluice seal rotate`: changes the key that secrets are sealed by. */
export function sealCommand(): Command {
  const rotate = new Command('rotate')
    .description('replace the sealing key and encrypt every secret again')
    .option('--data <folder>', 'data folder with the store and its key (default: ./data, or as in the options)')
    .option('--store <address>', 'store: a SQLite file or postgres://… (default: <data>/sluice.db)')
    .option('--config <file>', 'options file that names data folder and store')
    .addHelpText('after', SEAL_EXAMPLES)
    .action(async (flags: SealFlags) => {
      const { rotateSeal } = await import('../capabilities/transfer/command-rotate-seal.js')
      process.exitCode = await rotateSeal(flags)
    })
  return new Command('seal').description('manage the key that encrypts secrets in the store').addCommand(rotate)
}

const DOMAINS_EXAMPLES = `
Examples:
  export SLUICE_API_KEY=…
  sluice domains verify
  sluice domains verify app.example.com
  sluice domains verify --api https://sluice.example.com:4040 --dns 9.9.9.9

Lists the domains of the management API and looks up their DNS records. Without arguments it checks all reserved domains and
agent ingresses. Exit code 0: all records are correct; 1: a record is wrong or missing, or a server cannot be reached.`

const toTerminal = { out: (line: string) => console.log(line), error: (line: string) => console.error(line) }

/** `sluice domains verify`: explains what the DNS must say, and what it says now. */
export function domainsCommand(): Command {
  const verify = new Command('verify')
    .description('compare the DNS records of domains with the required ones')
    .argument('[domain...]', 'domains to check (default: all)')
    .option('--api <url>', 'URL of the management API', API_URL)
    .option('--dns <address...>', 'DNS servers to query (default: those of the system)')
    .option('--json', 'print one JSON object for each DNS record')
    .addHelpText('after', DOMAINS_EXAMPLES)
    .action(async (domains: readonly string[], flags: VerifyFlags) => {
      const { verifyDomains } = await import('../capabilities/certificates/command-verify.js')
      process.exitCode = await verifyDomains(domains, flags, process.env, toTerminal)
    })
  return new Command('domains').description('check the DNS records of your domains').addCommand(verify)
}

/** `sluice certificates`: how far managed certificates are. */
export function certificatesCommand(): Command {
  return new Command('certificates')
    .description("list certificates from Let's Encrypt (ACME): issued, requested, waiting or failed")
    .option('--api <url>', 'URL of the management API', API_URL)
    .option('--insecure-http', 'allow http:// to another machine (sends the API key in clear text)')
    .option('--json', 'print one JSON object for each domain')
    .addHelpText('after', '\nNeeds SLUICE_API_KEY. Exit code 0: all are issued; 1: one is not, or the API refused.')
    .action(async (flags: AccessFlags & { readonly json?: boolean }) => {
      const { listCertificates } = await import('../capabilities/certificates/command-verify.js')
      process.exitCode = await listCertificates(flags, process.env, toTerminal)
    })
}

const AGENT_EXAMPLES = `
Examples:
  export SLUICE_TOKEN=…
  sluice agent --server localhost:4443 --ca data/agents/ca.pem --label app=web --forward http://127.0.0.1:3000
  sluice agent --server localhost:4443 --ca data/agents/ca.pem --https app.example.com --forward 3000
  sluice agent --server localhost:4443 --ca data/agents/ca.pem --tcp --forward tcp://127.0.0.1:5432
  sluice agent --config agent.yaml

agent.yaml:
  server: localhost:4443
  ca: data/agents/ca.pem
  tunnels:
    web: {labels: {app: web}, forward: "http://127.0.0.1:3000"}
    shop: {https: shop.example.com, policy: shop.yaml, forward: "https://127.0.0.1:8443", verify: false}
    calls: {https: grpc.example.com, forward: 50051, app_protocol: http2}
    open: {https: open.example.com, endpoint_policy: open.yaml, forward: 3001}
    database: {tcp: true, forward: "tcp://127.0.0.1:5432"}
    own: {tls: own.example.com, forward: "127.0.0.1:8443"}

Policy files are checked, as by \`sluice check\`, before the agent connects. \`policy\` runs in the agent, on requests that the
server forwarded; \`endpoint_policy\` runs on the server. Only the server has vaults, IP policies, internal endpoints and logins.

The token comes from --token or SLUICE_TOKEN; the variable keeps it out of process lists. The agent reconnects after 0.5 to 15
seconds. Exit code 0: stopped; 1: the server refused the token or a tunnel; 2: the command line or the file is wrong.`

/** `sluice agent`: offers what listens here to a Sluice elsewhere. */
export function agentCommand(): Command {
  return new Command('agent')
    .description('expose local services through a remote Sluice server (tunnel)')
    .option('--server <host:port>', 'agent address of the server')
    .option('--token <token>', 'token of a tunnel credential (default: SLUICE_TOKEN)')
    .option('--ca <file>', 'CA certificates to trust instead of those of the system (PEM)')
    .option('--server-name <name>', 'name in the certificate of the server, if it differs from the host')
    .option('--proxy <url>', 'HTTP proxy to reach the server, or "off" (default: HTTPS_PROXY and NO_PROXY)')
    .option('--label <key=value>', 'label by which backends select this tunnel; may be repeated', collect, [])
    .option('--https [name]', 'open an HTTPS endpoint with this name, or a generated one')
    .option('--http [name]', 'open an HTTP endpoint without TLS')
    .option('--tcp [host:port]', 'open a TCP endpoint on this port, or any free one')
    .option('--tls [name]', 'open an endpoint whose TLS the target terminates, with this name or a generated one')
    .option('--policy <file>', 'traffic policy that the agent runs before it forwards')
    .option('--endpoint-policy <file>', 'traffic policy that the server runs for the endpoint')
    .option('--forward <target>', 'service: http(s)://host:port, tcp://host:port, tls://host:port, unix:/path, port')
    .option('--app-protocol <http1|http2>', 'protocol of the local service (default: http1); gRPC needs http2')
    .option('--metadata <text>', 'text that the server shows with the session')
    .option(
      '--resolver <own|system>',
      'how host names are resolved: by DNS queries (own, the default) or by the system resolver (system)'
    )
    .option('--config <file>', 'YAML file with tunnels and any of these options')
    .addHelpText('after', AGENT_EXAMPLES)
    .action(async (flags: AgentFlags) => {
      const { runAgent } = await import('../capabilities/tunnel/command-run.js')
      process.exitCode = await runAgent(flags, process.env, process.stderr)
    })
}

/** Takes the values of a flag that may be repeated. */
export function collect(value: string, values: readonly string[]): string[] {
  return [...values, value]
}
