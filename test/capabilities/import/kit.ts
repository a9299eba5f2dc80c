import { join } from 'node:path'
import type { ImportedConfig, Statement, Verdict } from '../../../src/capabilities/import/model.js'
import { readNginx } from '../../../src/capabilities/import/nginx/read.js'
import { writeSiteFile } from '../../../src/capabilities/import/site-file.js'
import { checkFile } from '../../../src/cli/check-files.js'

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
  const given = typeof files === 'string' ? { 'nginx.conf': files } : files
  const missing = (path: string) => Object.assign(new Error(`no ${path}`), { code: 'ENOENT', path })
  const config = await readNginx([Object.keys(given)[0] as string], {
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
export async function errorsOf(t: { testdir(files: Record<string, string>): string }, site: string): Promise<string[]> {
  const folder = t.testdir({ 'site.yaml': site })
  const { findings } = await checkFile(join(folder, 'site.yaml'), {})
  return findings.flatMap(({ problems }) =>
    problems.filter(({ severity }) => severity === 'error').map(({ code, message }) => `${code}: ${message}`)
  )
}
