import type { Command } from 'commander'
import { placesOf } from './completion.js'

const FILES: readonly (readonly [string, string])[] = [
  ['/etc/sluice/sluice.yaml', 'Options of the service.'],
  ['/etc/sluice/sites.yaml', 'Sites of the service.'],
  ['/etc/sluice/environment', 'Environment variables of the service, such as secrets.'],
  ['/var/lib/sluice', 'Data of the service: the store, certificates, counters of limits and the API key.']
]
const EXITS: readonly (readonly [string, string])[] = [
  ['0', 'The command did what it was asked for.'],
  ['1', 'The command failed, or what it checked is invalid.'],
  ['2', 'The command line, the environment or the options file asks for something that is not there.']
]

/** Returns the manual page of `program` in section 1, made from the help of its commands (roff, man(7)). */
export function manPage(program: Command, version: string): string {
  const places = placesOf(program)
  const commands = places.slice(1).filter(({ flags, subcommands }) => flags.length > 0 || subcommands.length === 0)
  return `${[
    `.TH SLUICE 1 "" "sluice ${version}" "User Commands"`,
    '.SH NAME',
    'sluice \\- reverse proxy and API gateway with traffic policies',
    '.SH SYNOPSIS',
    '.B sluice',
    '.I command',
    '.RI [ flags ]',
    '.SH DESCRIPTION',
    escaped(program.description()),
    '.SH COMMANDS',
    ...commands.flatMap(({ words, flags }) => [
      `.SS sluice ${escaped(words.join(' '))}`,
      escaped(commandAt(program, words).description()),
      ...flags.flatMap(({ syntax, text }) => ['.TP', `.B ${escaped(syntax)}`, escaped(text)])
    ]),
    '.SH "EXIT STATUS"',
    ...list(EXITS),
    '.SH FILES',
    ...list(FILES),
    '.SH ENVIRONMENT',
    'Each option of',
    '.B sluice start',
    'has a variable with the prefix',
    '.BR SLUICE_ .'
  ].join('\n')}\n`
}

function commandAt(program: Command, words: readonly string[]): Command {
  return words.reduce((command, word) => command.commands.find((child) => child.name() === word) ?? command, program)
}

function list(rows: readonly (readonly [string, string])[]): string[] {
  return rows.flatMap(([term, text]) => ['.TP', `.B ${escaped(term)}`, escaped(text)])
}

/** A line of roff begins with neither a dot nor a quote, and a hyphen is one that can be copied. */
function escaped(text: string): string {
  const line = text
    .replace(/\s*\n\s*/g, ' ')
    .replace(/\\/g, '\\e')
    .replace(/-/g, '\\-')
  return line.replace(/^(?=[.'])/, '\\&')
}
