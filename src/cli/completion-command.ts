import { Argument, Command } from 'commander'
import { completionScript, SHELLS, type Shell } from './completion.js'

const EXAMPLES = `
Examples:
  source <(sluice completion bash)
  sluice completion fish > ~/.config/fish/completions/sluice.fish`

/** Returns `sluice completion`, which prints a completion script of a shell for all commands of `program`. */
export function completionCommand(program: Command): Command {
  return new Command('completion')
    .description('print a completion script for your shell')
    .addArgument(new Argument('<shell>', 'the shell').choices(SHELLS))
    .addHelpText('after', EXAMPLES)
    .action((shell: Shell) => {
      process.stdout.write(completionScript(shell, program))
    })
}
