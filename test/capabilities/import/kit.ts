import { join } from 'node:path'
import type { Test } from 'tap'
import { parse } from 'yaml'
import type { ImportedConfig, Reader, Statement, Verdict } from '../../../src/capabilities/import/model.js'
import { readNginx } from '../../../src/capabilities/import/nginx/read.js'
import { writeSiteFile } from '../../../src/capabilities/import/site-file.js'
import { checkFile } from '../../../src/cli/check-files.js'
import { CodedError } from '../../../src/lib/errors.js'

/** What an import of some files gives. */
export interface Imported {
  readonly config: ImportedConfig
  readonly site: string
  readonly statements: readonly Statement[]
  /** The verdict of the statements that begin with these words. */
  verdict(start: string): Verdict['kind']
}

/** Reads files of nginx from memory; the first one is what the command names. */
export async function importNginx(
  files: string | Readonly<Record<string, string>>,
  environment: Readonly<Record<string, string>> = {}
): Promise<Imported> {
  return await importWith(readNginx, typeof files === 'string' ? { 'nginx.conf': files } : files, environment)
}

/** Reads files from memory with a reader; the first one is what the command names. */
export async function importWith(
  read: Reader,
  given: Readonly<Record<string, string>>,
  environment: Readonly<Record<string, string>> = {}
): Promise<Imported> {
  const missing = (path: string) => Object.assign(new Error(`no ${path}`), { code: 'ENOENT', path })
  const config = await read([Object.keys(given)[0] as string], {
    readFile: async (path) => {
      const text = given[path]
      if (text === undefined) throw missing(path)
      return text
    },
    listFolder: async (path) => {
      const folder = path.replace(/\/$/, '')
      const names = Object.keys(given).filter((name) => name.startsWith(`${folder}/`))
      if (names.length === 0) throw missing(path)
      return names.map((name) => name.slice(folder.length + 1))
    },
    environment
  })
  const { text, statements } = writeSiteFile(config)
  const verdict = (start: string) => {
    const found = statements.filter((one) => one.text.startsWith(start))
    if (found.length === 0) throw new Error(`no statement begins with "${start}"`)
    return (found[0] as Statement).verdict.kind
  }
  return { config, site: text, statements, verdict }
}

/** Errors of `sluice check` on a site file. */
async function errorsOf(t: { testdir(files: Record<string, string>): string }, site: string): Promise<string[]> {
  const folder = t.testdir({ 'site.yaml': site })
  const { findings } = await checkFile(join(folder, 'site.yaml'), {})
  return findings.flatMap(({ problems }) =>
    problems.filter(({ severity }) => severity === 'error').map(({ code, message }) => `${code}: ${message}`)
  )
}

/** A shape of a source: parts of its site file, and verdicts by the begin of statements. */
export interface Shape {
  readonly name: string
  readonly files: string | Readonly<Record<string, string>>
  readonly environment?: Readonly<Record<string, string>>
  readonly site?: object
  readonly verdicts?: Readonly<Record<string, Verdict['kind']>>
}

/** Imports each shape, compares its site file, and checks that `sluice check` finds no error but missing files and variables. */
export function testShapes(t: Test, read: Reader, file: string, shapes: readonly Shape[]): void {
  for (const { name, files, environment, site, verdicts = {} } of shapes) {
    t.test(name, async (t) => {
      const imported = await importWith(read, typeof files === 'string' ? { [file]: files } : files, environment)
      if (site !== undefined) t.match(parse(imported.site), site, imported.site)
      for (const [start, kind] of Object.entries(verdicts)) t.equal(imported.verdict(start), kind, start)
      t.same(await otherErrors(t, imported.site), [], imported.site)
    })
  }
}

/** Errors of a site file that are not about files, folders or variables that the machine of the test lacks. */
export async function otherErrors(
  t: { testdir(files: Record<string, string>): string },
  site: string
): Promise<string[]> {
  const errors = await errorsOf(t, site)
  return errors.filter((error) => !/ENOENT|cannot be read|is not there|no such file|FILE|not set/.test(error))
}

/**
 * Reads thousands of damaged copies of a text: each one is read, or refused with IMPORT_SYNTAX and a place. The numbers come from a
 * generator of its own, so that a failure can be repeated. Returns the number of texts that were read.
 */
export function damageTexts(seed: string, pieces: readonly string[], read: (text: string) => unknown): number {
  let state = 42
  const random = (limit: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return state % limit
  }
  let count = 0
  for (let round = 0; round < 5000; round++) {
    let text = seed
    for (let change = random(6); change >= 0; change--) {
      const at = random(text.length + 1)
      const added = random(3) === 0 ? '' : (pieces[random(pieces.length)] as string)
      text = text.slice(0, at) + added + text.slice(at + random(4))
    }
    try {
      read(text)
      count++
    } catch (error) {
      const isRefused =
        error instanceof CodedError && error.code === 'IMPORT_SYNTAX' && /^f:\d+:\d+: /.test(error.message)
      if (!isRefused) throw new Error(`${JSON.stringify(text)}: ${error}`, { cause: error })
    }
  }
  return count
}
