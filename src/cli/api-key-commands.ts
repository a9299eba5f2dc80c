import { Command } from 'commander'

const EXAMPLES = `
Examples:
  sluice api-key create
  sluice api-key create --name ci --data /var/lib/sluice
  sluice api-key list
  sluice api-key revoke ak_2b7c…

These are the keys of the operator, which may do everything. A key is printed once, on standard output; only a hash of it is
stored, so a list shows none. A running process takes a new key, and refuses a revoked one, at once. Keys of an account, with
the rights of their user or bot, are made and deleted at /api_keys of the management API.`

interface KeyFlags {
  readonly data?: string
  readonly config?: string
}

function withFolder(command: Command): Command {
  return command
    .option('--data <folder>', 'folder of the process (default: ./data, or what the options say)')
    .option('--config <file>', 'options file that names the folder')
}

/** `sluice api-key`: the keys of the operator for the management API. */
export function apiKeyCommand(): Command {
  const create = withFolder(new Command('create').description('make a key and print it once'))
    .option('--name <text>', 'what it is for')
    .action(async ({ name, ...flags }: KeyFlags & { readonly name?: string }) => {
      const { createApiKey } = await import('./api-keys.js')
      process.exitCode = await createApiKey(flags, name)
    })
  const list = withFolder(new Command('list').description('show which keys there are, and none of them'))
    .option('--json', 'one JSON object for each key')
    .action(async ({ json, ...flags }: KeyFlags & { readonly json?: boolean }) => {
      const { listApiKeys } = await import('./api-keys.js')
      process.exitCode = await listApiKeys(flags, json === true)
    })
  const revoke = withFolder(new Command('revoke').description('take a key back: it opens nothing any more'))
    .argument('<id...>', 'as "api-key list" shows them')
    .action(async (ids: readonly string[], flags: KeyFlags) => {
      const { revokeApiKeys } = await import('./api-keys.js')
      process.exitCode = await revokeApiKeys(flags, ids)
    })
  return new Command('api-key')
    .description('keys of the management API')
    .addCommand(create)
    .addCommand(list)
    .addCommand(revoke)
    .addHelpText('after', EXAMPLES)
}
