import { Command, CommanderError } from 'commander'
import { packageVersion } from '../lib/files.js'
import { backupCommand, restoreCommand } from './backup-commands.js'
import {
  agentCommand,
  apiKeyCommand,
  checkCommand,
  domainsCommand,
  exportCommand,
  importCommand,
  schemaCommand,
  sealCommand,
  startCommand
} from './commands.js'
import { ExitCode } from './process.js'

const EXAMPLES = `
Examples:
  sluice start --upstream http://127.0.0.1:3000
  sluice start --upstream http://127.0.0.1:3000 --policy policy.yaml
  sluice start --config sluice.yaml
  sluice check policy.yaml
  sluice api-key create

Every option of "start" is described in config/sluice.yaml; "sluice schema" prints JSON Schemas for editors.`

/**
 * Runs one command of `sluice` and resolves with the exit code. Commands set `process.exitCode` for what they found;
 * a command line that cannot be read is 2.
 */
export async function runProgram(words: readonly string[]): Promise<number> {
  const program = createProgram()
  try {
    await program.parseAsync([...words], { from: 'user' })
    return Number(process.exitCode ?? ExitCode.ok)
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    return error.exitCode === 0 ? ExitCode.ok : ExitCode.usage
  }
}

function createProgram(): Command {
  const program = new Command('sluice')
    .description('A traffic proxy that evaluates policies on every request and reconfigures live.')
    .version(packageVersion(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .addHelpText('after', EXAMPLES)
  const commands = [startCommand(), checkCommand(), schemaCommand(), apiKeyCommand(), domainsCommand()]
  commands.push(agentCommand(), exportCommand(), importCommand(), backupCommand(), restoreCommand(), sealCommand())
  for (const command of commands) program.addCommand(command)
  return inherit(program)
}

/** Commands made apart inherit nothing: errors of all of them come back here as exceptions and name the help to read. */
function inherit(command: Command, words = 'sluice'): Command {
  command.exitOverride().showHelpAfterError(`(${words} --help shows what there is)`)
  for (const child of command.commands) inherit(child, `${words} ${child.name()}`)
  return command
}
