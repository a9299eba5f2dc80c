import { Command } from 'commander'
import { load } from './load.js'

const IMPORT_EXAMPLES = `
Examples:
  sluice import account.yaml --dry-run
  sluice import account.yaml
  sluice import account.yaml --prune --yes --data /var/lib/sluice
  SLUICE_PASSPHRASE=… sluice import account.yaml --yes --store postgres://sluice@db/sluice

Shows what would change and asks before it does; without a terminal it needs --yes. Everything is imported or nothing.
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
}

/** `sluice import`: makes the account what a document says. */
export function importCommand(): Command {
  return new Command('import')
    .description('make the account what a document of "sluice export" says')
    .argument('<file>', 'the document; "-" reads standard input')
    .option('--data <folder>', 'folder of the store and its key (default: ./data, or what the options say)')
    .option('--store <address>', 'the store: a file or postgres://… (default: <data>/sluice.db)')
    .option('--config <file>', 'options file that names them')
    .option('--dry-run', 'only show what would change')
    .option('--yes', 'do not ask')
    .option('--prune', 'delete the records that the document does not have')
    .addHelpText('after', IMPORT_EXAMPLES)
    .action(async (file: string, { dryRun, yes, prune, ...flags }: ImportFlags) => {
      const { importFile } = await load('./import-account.js', () => import('./import-account.js'))
      const how = { dryRun: dryRun === true, yes: yes === true, prune: prune === true }
      process.exitCode = await importFile(file, flags, how)
    })
}
