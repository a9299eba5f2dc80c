import { Argument, Command } from 'commander'
import { documentKinds } from '../capabilities/registry.js'
import type { OptionFlag } from '../options/load.js'
import { keepRunning } from './flags.js'
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
  command
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
  return keepRunning(command)
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
  const schemas = documentSchemas()
  const what = new Argument('[what]', 'schema to print').choices([...schemas.keys()]).default('policy')
  return new Command('schema')
    .description('print the JSON Schema of policies, the options file or site files, for editors')
    .addArgument(what)
    .option('--site', 'the same as "sluice schema site"')
    .addHelpText('after', SCHEMA_EXAMPLES)
    .action(async (wanted: string, { site }: { site?: boolean }) => {
      const schema = await (schemas.get(site === true ? 'site' : wanted) ?? policyFileSchema)()
      process.stdout.write(`${JSON.stringify(schema, undefined, 2)}\n`)
    })
}

async function policyFileSchema(): Promise<object> {
  const [{ policySchema }, { actions }] = await Promise.all([
    import('../policy/json-schema.js'),
    import('../features/registry.js')
  ])
  return policySchema(actions)
}

async function optionsFileSchema(): Promise<object> {
  const { publishedOptions } = await import('../options/options.js')
  return { $schema: 'https://json-schema.org/draft/2020-12/schema', ...publishedOptions() }
}

/** Returns the functions that make the schemas, by the name of the kind of document. */
function documentSchemas(): ReadonlyMap<string, () => Promise<object>> {
  const ofCapabilities = [...documentKinds()].map(
    ([name, load]) => [name, async () => (await load()).schema(await policyFileSchema())] as const
  )
  return new Map([['policy', policyFileSchema], ['options', optionsFileSchema], ...ofCapabilities])
}
