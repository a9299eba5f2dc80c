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

Flags win over environment variables, these over the options file. The policy is applied again when its file changes
or on SIGHUP; one with errors is reported and changes nothing. SIGINT and SIGTERM finish what is under way.

--take-over starts a new process beside the one on the same data folder: it inherits the sockets, and then the store, tickets and
counters of limits; the one before ends when its connections have. When the new one fails, the one before goes on. Linux only.`

/** Flags that set an option: name, argument, path of the option, description. */
const FLAGS = [
  ['upstream', 'url', 'upstream', 'where traffic goes: http(s)://host:port, or host:port for http'],
  ['files', 'folder', 'files', 'folder to serve in place of an upstream'],
  ['policy', 'file', 'policy', 'traffic policy for that traffic'],
  ['listen', 'host:port', 'listen', 'where traffic is accepted, or "off" (default: 127.0.0.1:8080)'],
  ['api', 'host:port', 'api.listen', 'where the management API listens (default: 127.0.0.1:4040)'],
  ['agents', 'host:port', 'agents', 'where agents connect (default: nowhere)'],
  ['data', 'folder', 'data', 'what must outlive the process; ":memory:" keeps nothing (default: ./data)'],
  ['store', 'address', 'store', 'records of the API: a file, ":memory:" or postgres://… (default: <data>/sluice.db)']
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
    .argument('[site-file]', 'sites, backends, certificates, policies and listeners by readable names')
    .option('--config <file>', 'options file; config/sluice.yaml shows every option')
  for (const [name, argument, , description] of FLAGS) command.option(`--${name} <${argument}>`, description)
  return command
    .option('--no-cache', 'keep no copy of the records; without the store, a start waits for it')
    .option('--demo', 'without an upstream: start a small one, and serve config/demo.yaml')
    .option('--new-seal-key', 'the sealing key of the store is lost: go on with the one that is there, or a new one')
    .option('--new-store', 'make an empty store, although the data folder has the copy of one')
    .option('--take-over', 'take the place of the process that runs on the same data folder; it loses no request')
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

Looks at the data folder, the keys, the store, the ports, the upstream, certificates, the clock, the limits of the process and
the site file, as the options name them, and says what to do about each finding. It changes nothing, and may run beside a
process. Run it as the user of that process. Exit code 0: nothing is wrong; 1: something is; 2: the options cannot be read.`

type DoctorFlags = Partial<Record<(typeof FLAGS)[number][0] | 'config', string>> & { json?: boolean }

/** `sluice doctor`: looks at everything that a start needs. */
export function doctorCommand(): Command {
  const command = new Command('doctor')
    .description('look at everything that a start needs, and say what to do')
    .argument('[site-file]', 'the site file of the start')
    .option('--config <file>', 'options file of the process')
    .option('--json', 'one JSON object with every finding')
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

A site file is checked together with the policies, certificates and secrets that it names. Nothing runs and nothing is
contacted. Exit code 0: every document is valid (warnings are allowed); 1: one is not.
With --json each file is one line: {"file", "ok", "errors": [{"line", "column", "path", "code", "message"}], "warnings"}.`

/** `sluice check`: says whether policy documents are valid, and where they are not. */
export function checkCommand(): Command {
  return new Command('check')
    .description('check traffic policy documents and site files (YAML or JSON) without running them')
    .argument('<file...>', 'documents to check; "-" reads standard input')
    .option('--json', 'one JSON object per file and line, and nothing else')
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

An editor with a YAML language server then completes and checks a policy that begins with
  # yaml-language-server: $schema=./policy.schema.json`

/** `sluice schema`: prints a JSON Schema for editors. */
export function schemaCommand(): Command {
  const what = new Argument('[what]', 'which schema').choices(['policy', 'options', 'site']).default('policy')
  return new Command('schema')
    .description('print the JSON Schema of policy documents, of the options file or of site files')
    .addArgument(what)
    .option('--site', 'that of site files')
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

The document holds every record as of one revision, always in the same order. Write-only values (secrets, private keys,
hashes of keys) are left out unless --with-secrets seals them by a passphrase, which is read from SLUICE_PASSPHRASE or
asked at the terminal. A process may run meanwhile: the document then holds what it has committed. --at writes the account as it
was at a revision that the history still keeps; a secret that was changed since is left out, because the history has none.`

/** `sluice export`: writes the whole account as one document. */
export function exportCommand(): Command {
  return new Command('export')
    .description('write the whole account as one YAML document')
    .option('--data <folder>', 'folder of the store and its key (default: ./data, or what the options say)')
    .option('--store <address>', 'the store: a file or postgres://… (default: <data>/sluice.db)')
    .option('--config <file>', 'options file that names them')
    .option('--at <revision>', 'as it was at this revision (default: the last one)')
    .option('--with-secrets', 'take write-only values along, sealed by a passphrase')
    .option('--output <file>', 'where to write it, readable by you alone (default: standard output)')
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

Shows what would change and asks before it does; without a terminal it needs --yes. Everything is imported or nothing.
A document that is cut, or was changed after its export, does not fit its end mark and needs --partial.
Records that the document does not have stay, unless --prune deletes them. A write-only value that the document does
not have stays as it is. Processes on PostgreSQL serve what was imported within a second; a store in a file belongs to
the process that has it open: stop it first.`

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
    .description('make the account what a document of "sluice export" says, or a site file of files of another server')
    .argument('<file>', 'the document; "-" reads standard input')
    .option('--data <folder>', 'folder of the store and its key (default: ./data, or what the options say)')
    .option('--store <address>', 'the store: a file or postgres://… (default: <data>/sluice.db)')
    .option('--config <file>', 'options file that names them')
    .option('--dry-run', 'only show what would change')
    .option('--yes', 'do not ask')
    .option('--prune', 'delete the records that the document does not have')
    .option('--partial', 'import a document without its end mark, or with that of another content')
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

Makes a new sealing key, seals every secret of the store with it and removes the old key at the end. A key that you keep
yourself (SLUICE_SEAL_KEY) is replaced by that of SLUICE_SEAL_KEY_NEW. Stop every process on the store first. When it is
interrupted, run it again.`

interface SealFlags {
  readonly data?: string
  readonly store?: string
  readonly config?: string
}

/** `sluice seal rotate`: changes the key that secrets are sealed by. */
export function sealCommand(): Command {
  const rotate = new Command('rotate')
    .description('change the key, and seal every secret anew')
    .option('--data <folder>', 'folder of the store and its key (default: ./data, or what the options say)')
    .option('--store <address>', 'the store: a file or postgres://… (default: <data>/sluice.db)')
    .option('--config <file>', 'options file that names them')
    .addHelpText('after', SEAL_EXAMPLES)
    .action(async (flags: SealFlags) => {
      const { rotateSeal } = await import('../capabilities/transfer/command-rotate-seal.js')
      process.exitCode = await rotateSeal(flags)
    })
  return new Command('seal').description('the key that secrets in the store are sealed by').addCommand(rotate)
}

const DOMAINS_EXAMPLES = `
Examples:
  export SLUICE_API_KEY=…
  sluice domains verify
  sluice domains verify app.example.com
  sluice domains verify --api https://sluice.example.com:4040 --dns 9.9.9.9

Asks the management API which domains there are, and the DNS what it says of them. Without names all reserved domains
and agent ingresses are looked at. Exit code 0: the DNS says what it must; 1: something is wrong or cannot be asked.`

const toTerminal = { out: (line: string) => console.log(line), error: (line: string) => console.error(line) }

/** `sluice domains verify`: explains what the DNS must say, and what it says now. */
export function domainsCommand(): Command {
  const verify = new Command('verify')
    .description('compare what the DNS must say of domains with what it says now')
    .argument('[domain...]', 'domains of the account (default: all of them)')
    .option('--api <url>', 'the management API', API_URL)
    .option('--dns <address...>', 'resolvers to ask (default: those of the system)')
    .option('--json', 'one JSON object for each line of the DNS')
    .addHelpText('after', DOMAINS_EXAMPLES)
    .action(async (domains: readonly string[], flags: VerifyFlags) => {
      const { verifyDomains } = await import('../capabilities/certificates/command-verify.js')
      process.exitCode = await verifyDomains(domains, flags, process.env, toTerminal)
    })
  return new Command('domains').description('domains of the account').addCommand(verify)
}

/** `sluice certificates`: how far managed certificates are. */
export function certificatesCommand(): Command {
  return new Command('certificates')
    .description('show which managed certificates are issued, requested, waiting or failed')
    .option('--api <url>', 'the management API', API_URL)
    .option('--insecure-http', 'allow http:// to another machine, although a key is sent')
    .option('--json', 'one JSON object for each domain')
    .addHelpText('after', '\nNeeds SLUICE_API_KEY. Exit code 0: all are issued; 1: one is not, or the API refuses.')
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

A policy file is checked as by \`sluice check\` before anything connects. \`policy\` runs here, on what the server has let
through; \`endpoint_policy\` runs at the server. The API's objects (vaults, IP policies, internal endpoints) and logins are
the server's alone.

The token comes from --token or SLUICE_TOKEN; the variable keeps it out of lists of processes. A lost connection is
made again after half a second to 15 s. Exit code 0: stopped; 1: the server refuses the token or a tunnel; 2: the
command line or the file is wrong.`

/** `sluice agent`: offers what listens here to a Sluice elsewhere. */
export function agentCommand(): Command {
  return new Command('agent')
    .description('connect local upstreams to a Sluice elsewhere')
    .option('--server <host:port>', 'where the server listens for agents')
    .option('--token <token>', 'token of a tunnel credential (or SLUICE_TOKEN)')
    .option('--ca <file>', "authorities that are trusted instead of the system's")
    .option('--server-name <name>', "name in the server's certificate, when it is not the host")
    .option(
      '--proxy <url>',
      'HTTP proxy to the server, or "off" (default: HTTPS_PROXY and NO_PROXY of the environment)'
    )
    .option('--label <key=value>', 'label that backends select the tunnel by; may be repeated', collect, [])
    .option('--https [name]', 'endpoint of its own, under this name or a made-up one')
    .option('--http [name]', 'the same without TLS')
    .option('--tcp [host:port]', 'TCP endpoint of its own, on this port or any')
    .option('--tls [name]', 'endpoint whose TLS the target ends itself, under this name or a made-up one')
    .option('--policy <file>', 'traffic policy that this agent runs before the target is called')
    .option('--endpoint-policy <file>', 'traffic policy that the server runs for the endpoint')
    .option('--forward <target>', 'http(s)://host:port, tcp://host:port, tls://host:port, unix:/path or a port')
    .option('--app-protocol <http1|http2>', 'what the target speaks (default: http1); gRPC needs http2')
    .option('--metadata <text>', 'shown with the session')
    .option(
      '--resolver <own|system>',
      'who looks names up: DNS servers are asked (own), or the system with all it knows'
    )
    .option('--config <file>', 'several tunnels, and any of the above')
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
