import { Command } from 'commander'
import { load } from './load.js'

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
      const { rotateSeal } = await load('./rotate-seal.js', () => import('./rotate-seal.js'))
      process.exitCode = await rotateSeal(flags)
    })
  return new Command('seal').description('the key that secrets in the store are sealed by').addCommand(rotate)
}
