import { Command } from 'commander'
import { ExitCode } from './exit-code.js'

const API_KEY_EXAMPLES = `
Examples:
  sluice api-key create
  sluice api-key create --data /var/lib/sluice

The key is printed once, on standard output; only a hash of it is stored. A running process accepts it at once.`

/** `sluice api-key create`: makes another key for the management API. */
export function apiKeyCommand(): Command {
  const create = new Command('create')
    .description('make a key and print it once')
    .option('--data <folder>', 'folder of the running process (default: ./data, or what the options say)')
    .option('--config <file>', 'options file that names the folder')
    .addHelpText('after', API_KEY_EXAMPLES)
    .action(async ({ data, config }: { data?: string; config?: string }) => {
      process.exitCode = await createApiKey(data, config)
    })
  return new Command('api-key').description('keys of the management API').addCommand(create)
}

async function createApiKey(data: string | undefined, config: string | undefined): Promise<number> {
  const [
    { loadOptions },
    { formatOptionProblem },
    { IN_MEMORY },
    { createKey },
    { CodedError, codeOf },
    { systemClock }
  ] = await Promise.all([
    import('../options/load.js'),
    import('../options/problem.js'),
    import('../options/fields.js'),
    import('../api/keys.js'),
    import('../lib/coded-error.js'),
    import('../lib/clock.js')
  ])
  const loaded = await loadOptions({
    flags: data === undefined ? [] : [{ flag: '--data', option: 'data', text: data }],
    environment: process.env,
    folder: process.cwd(),
    ...(config === undefined ? {} : { config })
  })
  if (!loaded.ok) {
    for (const problem of loaded.problems) console.error(formatOptionProblem(problem))
    return ExitCode.usage
  }
  const folder = loaded.options.data
  if (folder === IN_MEMORY) {
    console.error('data is :memory:, so a key made here would be known to no other process; set SLUICE_API_KEY instead')
    return ExitCode.usage
  }
  try {
    console.log(await createKey(folder, systemClock))
    return ExitCode.ok
  } catch (error) {
    if (!(error instanceof CodedError) && codeOf(error) === undefined) throw error
    console.error(`no key was made in ${folder}: ${error instanceof CodedError ? error.message : codeOf(error)}`)
    return ExitCode.failure
  }
}
