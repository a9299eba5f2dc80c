import { Command } from 'commander'

const EXAMPLES = `
Examples:
  sluice api-key create
  sluice api-key create --name ci --data /var/lib/sluice
  sluice api-key list
  sluice api-key revoke ak_2b7c…

These are operator keys with full permissions. A key is printed once, when it is created; only its hash is stored. A running process
accepts a new key and rejects a revoked one at once. Keys with the permissions of a user or bot are managed at /api_keys of the
management API.`

interface KeyFlags {
  readonly data?: string
  readonly config?: string
}

function withFolder(command: Command): Command {
  return command
    .option('--data <folder>', 'data folder of the process (default: ./data, or as in the options)')
    .option('--config <file>', 'options file that names the data folder')
}

/** `sluice api-key`: the keys of the operator for the management API. */
export function apiKeyCommand(): Command {
  const create = withFolder(new Command('create').description('create a key and print it'))
    .option('--name <text>', 'name of the key')
    .action(async ({ name, ...flags }: KeyFlags & { readonly name?: string }) => {
      const { createApiKey } = await import('./api-keys.js')
      process.exitCode = await createApiKey(flags, name)
    })
  const list = withFolder(new Command('list').description('list ids, times and names of the keys'))
    .option('--json', 'print one JSON object for each key')
    .action(async ({ json, ...flags }: KeyFlags & { readonly json?: boolean }) => {
      const { listApiKeys } = await import('./api-keys.js')
      process.exitCode = await listApiKeys(flags, json === true)
    })
  const revoke = withFolder(new Command('revoke').description('revoke keys'))
    .argument('<id...>', 'ids from "api-key list"')
    .action(async (ids: readonly string[], flags: KeyFlags) => {
      const { revokeApiKeys } = await import('./api-keys.js')
      process.exitCode = await revokeApiKeys(flags, ids)
    })
  return new Command('api-key')
    .description('manage operator keys of the management API')
    .addCommand(create)
    .addCommand(list)
    .addCommand(revoke)
    .addHelpText('after', EXAMPLES)
}
