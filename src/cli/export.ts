import { Command } from 'commander'
import { load } from './load.js'

const EXPORT_EXAMPLES = `
Examples:
  sluice export --output account.yaml
  sluice export --data /var/lib/sluice --with-secrets --output account.yaml
  sluice export --store postgres://sluice@db/sluice > account.yaml

The document holds every record as of one revision, always in the same order. Write-only values (secrets, private keys,
hashes of keys) are left out unless --with-secrets seals them by a passphrase, which is read from SLUICE_PASSPHRASE or
asked at the terminal. A store in a file belongs to the process that has it open: stop it first.`

interface ExportFlags {
  readonly data?: string
  readonly store?: string
  readonly config?: string
  readonly withSecrets?: boolean
  readonly output?: string
}

/** `sluice export`: writes the whole account as one document. */
export function exportCommand(): Command {
  return new Command('export')
    .description('write the whole account as one YAML document')
    .option('--data <folder>', 'folder of the store and its key (default: ./data, or what the options say)')
    .option('--store <address>', 'the store: a file or postgres://… (default: <data>/sluice.db)')
    .option('--config <file>', 'options file that names them')
    .option('--with-secrets', 'take write-only values along, sealed by a passphrase')
    .option('--output <file>', 'where to write it, readable by you alone (default: standard output)')
    .addHelpText('after', EXPORT_EXAMPLES)
    .action(async ({ withSecrets, output, ...flags }: ExportFlags) => {
      const { exportTo } = await load('./export-account.js', () => import('./export-account.js'))
      process.exitCode = await exportTo(flags, withSecrets === true, output)
    })
}
