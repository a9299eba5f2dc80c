import { Command } from 'commander'
import type { OptionFlag } from '../options/load.js'
import { load } from './load.js'

const START_EXAMPLES = `
Examples:
  sluice start --upstream http://127.0.0.1:3000
  sluice start --upstream http://127.0.0.1:3000 --policy policy.yaml --listen 0.0.0.0:8080
  sluice start --config sluice.yaml
  SLUICE_LIMITS_HEADERS=100 sluice start --upstream http://127.0.0.1:3000 --data :memory:

Flags win over environment variables, these over the options file. The policy is applied again when its file changes
or on SIGHUP; one with errors is reported and changes nothing. SIGINT and SIGTERM finish what is under way.`

/** Flags that set an option: name, argument, path of the option, description. */
const FLAGS = [
  ['upstream', 'url', 'upstream', 'where traffic goes: http(s)://host:port'],
  ['policy', 'file', 'policy', 'traffic policy for that traffic'],
  ['listen', 'host:port', 'listen', 'where traffic is accepted (default: 127.0.0.1:8080)'],
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
}

/** `sluice start`: runs the proxy in the foreground until a signal ends it. */
export function startCommand(): Command {
  const command = new Command('start')
    .description('run the proxy in the foreground')
    .option('--config <file>', 'options file; config/sluice.yaml shows every option')
  for (const [name, argument, , description] of FLAGS) command.option(`--${name} <${argument}>`, description)
  return command
    .option('--no-cache', 'keep no copy of the records; without the store, a start waits for it')
    .option('--demo', 'without an upstream: start a small one and the demo policy')
    .option('--new-seal-key', 'the sealing key of the store is lost: go on with the one that is there, or a new one')
    .option('--new-store', 'make an empty store, although the data folder has the sealing key of one')
    .addHelpText('after', START_EXAMPLES)
    .action(async (given: StartFlags) => {
      const { serve } = await load('./serve.js', () => import('./serve.js'))
      process.exitCode = await serve({
        flags: flagsOf(given),
        demo: given.demo === true,
        newSealKey: given.newSealKey === true,
        newStore: given.newStore === true,
        ...(given.config === undefined ? {} : { config: given.config })
      })
    })
}

function flagsOf(given: StartFlags): OptionFlag[] {
  const flags = FLAGS.flatMap(([name, , option]) => {
    const text = given[name]
    return text === undefined ? [] : [{ flag: `--${name}`, option, text }]
  })
  return given.cache ? flags : [...flags, { flag: '--no-cache', option: 'cache', text: 'off' }]
}
