import { Command } from 'commander'
import { load } from './process.js'

const BACKUP_EXAMPLES = `
Examples:
  sluice backup /backups/sluice.db
  sluice backup --data /var/lib/sluice --with-keys --overwrite /backups/sluice.db

The file is a SQLite database with everything that the store held at one moment. Processes go on meanwhile; nothing has to be
stopped. It appears as a whole or not at all, readable by you alone, and "sluice restore" checks it and puts it in place. Its
secrets stay sealed: keep the sealing key elsewhere, or take it along by --with-keys, and then keep the file as you keep a
key. PostgreSQL has tools of its own: pg_dump.`

interface BackupFlags {
  readonly data?: string
  readonly store?: string
  readonly config?: string
  readonly withKeys?: boolean
  readonly overwrite?: boolean
}

/** `sluice backup`: a consistent copy of the store, beside a process that runs. */
export function backupCommand(): Command {
  return new Command('backup')
    .description('write a consistent backup of the store, while processes run')
    .argument('<file>', 'where to write it')
    .option('--data <folder>', 'folder of the store and its key (default: ./data, or what the options say)')
    .option('--store <address>', 'the store: a file (default: <data>/sluice.db)')
    .option('--config <file>', 'options file that names them')
    .option('--with-keys', 'take along the sealing key, the hashes of API keys and the authority of agents')
    .option('--overwrite', 'replace the file when it is there')
    .addHelpText('after', BACKUP_EXAMPLES)
    .action(async (file: string, { withKeys, overwrite, ...flags }: BackupFlags) => {
      const { backUp } = await load('./backup.js', () => import('./backup.js'))
      process.exitCode = await backUp(file, flags, { withKeys: withKeys === true, overwrite: overwrite === true })
    })
}

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
      const { restore } = await load('./backup.js', () => import('./backup.js'))
      process.exitCode = await restore(file, flags, overwrite === true)
    })
}
