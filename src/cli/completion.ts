import type { Command, Option } from 'commander'

/** Shells for which `sluice completion` writes a script. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

/** A command with the words that may follow it. */
interface Place {
  /** The command's words after `sluice`; empty for the program itself. */
  readonly words: readonly string[]
  readonly subcommands: readonly { readonly name: string; readonly text: string }[]
  readonly flags: readonly {
    readonly names: readonly string[]
    readonly takesValue: boolean
    readonly syntax: string
    readonly text: string
  }[]
}

/** Returns the completion script of a shell for all commands and flags of `program`. */
export function completionScript(shell: Shell, program: Command): string {
  const places = placesOf(program)
  return { bash, zsh, fish }[shell](places)
}

/** Lists the program and all its commands, outer ones first. */
export function placesOf(command: Command, words: readonly string[] = []): readonly Place[] {
  const shown = command.createHelp().visibleCommands(command)
  const subcommands = shown.map((child) => ({ name: child.name(), text: child.description() }))
  const flags = command.createHelp().visibleOptions(command).map(flagOf)
  const below = shown
    .filter((child) => child.name() !== 'help')
    .flatMap((child) => placesOf(child, [...words, child.name()]))
  return [{ words, subcommands, flags }, ...below]
}

function flagOf({ flags, long, short, required, optional, description }: Option) {
  const names = [long, short].filter((name) => name !== undefined && name !== null)
  return { names, takesValue: required || optional, syntax: flags, text: description }
}

/** Quotes a text for the three shells: none of them reads anything in single quotes but the quote itself. */
function quoted(text: string): string {
  return `'${text.replace(/'/g, "'\\''")}'`
}

/** Follows the words before the cursor to the innermost command; used by bash and zsh, whose arrays differ only in how they are read. */
function follow(places: readonly Place[]): string {
  const known = places.filter(({ words }) => words.length > 0).map(({ words }) => quoted(words.join(' ')))
  return `  local place= word
  for word in "\${before[@]}"; do
    case "\${place:+$place }$word" in
      ${known.join('|')}) place="\${place:+$place }$word" ;;
    esac
  done`
}

function bash(places: readonly Place[]): string {
  const cases = places.map(({ words, subcommands, flags }) => {
    const offered = [...subcommands.map(({ name }) => name), ...flags.flatMap(({ names }) => names)]
    return `    ${quoted(words.join(' '))}) offered=${quoted(offered.join(' '))} ;;`
  })
  return `# Completion of sluice for bash: sluice completion bash > /etc/bash_completion.d/sluice
_sluice() {
  local before=("\${COMP_WORDS[@]:1:COMP_CWORD-1}") offered=
${follow(places)}
  case "$place" in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$offered" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _sluice sluice
`
}

function zsh(places: readonly Place[]): string {
  const cases = places.map(({ words, subcommands, flags }) => {
    const offered = [
      ...subcommands.map(({ name, text }) => `${name}:${text}`),
      ...flags.flatMap(({ names, text }) => names.map((name) => `${name}:${text}`))
    ]
    return `    ${quoted(words.join(' '))}) offered=(${offered.map(quoted).join(' ')}) ;;`
  })
  return `#compdef sluice
# Completion of sluice for zsh: sluice completion zsh > a folder of $fpath, named _sluice
_sluice() {
  local -a before offered
  before=("\${(@)words[2,CURRENT-1]}")
${follow(places)}
  case "$place" in
${cases.join('\n')}
  esac
  _describe sluice offered
  _files
}
if [ "$funcstack[1]" = _sluice ]; then _sluice "$@"; else compdef _sluice sluice; fi
`
}

function fish(places: readonly Place[]): string {
  const lines = places.flatMap(({ words, subcommands, flags }) => {
    const when = `-n ${quoted(`__sluice_at ${words.join(' ')}`.trim())}`
    return [
      ...subcommands.map(({ name, text }) => `complete -c sluice ${when} -a ${name} -d ${fishText(text)}`),
      ...flags.map(({ names, takesValue, text }) => {
        const words = names.map((name) => (name.startsWith('--') ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`))
        return `complete -c sluice ${when} ${words.join(' ')}${takesValue ? ' -r' : ''} -d ${fishText(text)}`
      })
    ]
  })
  const known = places.filter(({ words }) => words.length > 0).map(({ words }) => quoted(words.join(' ')))
  return `# Completion of sluice for fish: sluice completion fish > ~/.config/fish/completions/sluice.fish
function __sluice_at
    set -l place
    for word in (commandline -opc)[2..]
        set -l longer (string trim "$place $word")
        contains -- $longer ${known.join(' ')}; and set place $longer
    end
    test "$place" = "$argv"
end
${lines.join('\n')}
`
}

/** Fish reads a backslash in single quotes, too. */
function fishText(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`
}
