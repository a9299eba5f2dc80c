import { Command } from 'commander'
import { load } from './load.js'

const RESTORE_EXAMPLES = `
Examples:
  sluice restore /backups/sluice.db
  sluice restore --data /var/lib/sluice --overwrite /backups/sluice.db

Stop the process on the data folder first. The backup is checked before anything changes; what is there is replaced only with
--overwrite. Keys come back when the backup was made --with-keys; otherwise put seal.key into the folder yourself, or set
SLUICE_SEAL_KEY.`

interface RestoreFlags {
  readonly data?: string
  readonly store?: string
  readonly config?: string
  readonly overwrite?: boolean
}

/** `sluice restore`: puts a backup in the place of the store. */
export function restoreCommand(): Command {
  return new Command('restore')
    .description('put a backup in the place of the store')
    .argument('<file>', 'what "sluice backup" or GET /backup has written')
    .option('--data <folder>', 'folder of the store and its key (default: ./data, or what the options say)')
    .option('--store <address>', 'the store: a file (default: <data>/sluice.db)')
    .option('--config <file>', 'options file that names them')
    .option('--overwrite', 'replace the records, and the keys that the backup has, when they are there')
    .addHelpText('after', RESTORE_EXAMPLES)
    .action(async (file: string, { overwrite, ...flags }: RestoreFlags) => {
      const { restore } = await load('./restore-store.js', () => import('./restore-store.js'))
      process.exitCode = await restore(file, flags, overwrite === true)
    })
}
