import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

/** Import and export declarations, and `import()` of a literal. */
const IMPORTS =
  /^(?:import|export)\s(?:type\s)?(?:[\w*{}\s,$]+?\sfrom\s)?'([^']+)'|^\} from '([^']+)'|\bimport\('([^']+)'\)/gm

/**
 * The modules of `folders` and what each imports: a map from a file (`src/lib/cidr.ts`) to its specifiers, those of the project as files.
 * Read from the text of the sources, so that a run of tests needs no compiler for it (all of `src` and `test` take about 0.3 s).
 */
export function readImports(folders = ['src', 'test']) {
  const files = folders.flatMap((folder) =>
    readdirSync(folder, { recursive: true })
      .filter((name) => /\.(?:ts|js|mjs|cjs)$/.test(name))
      .map((name) => join(folder, name))
  )
  return new Map(files.map((file) => [file, importsOf(file)]))
}

function importsOf(file) {
  const found = [...readFileSync(file, 'utf8').matchAll(IMPORTS)].map(([, whole, end, lazy]) => whole ?? end ?? lazy)
  return [...new Set(found.map((name) => (name.startsWith('.') ? sourceFile(file, name) : name)))]
}

function sourceFile(importer, name) {
  const path = normalize(join(dirname(importer), name))
  const typed = path.replace(/\.js$/, '.ts')
  return existsSync(typed) ? typed : path
}

/**
 * The files that import one of `starts`, directly or through others, with those themselves. Nothing is followed through a file for which `stopsAt`
 * answers true; such a file is part of the result.
 */
export function importersOf(imports, starts, stopsAt = () => false) {
  const importers = new Map()
  for (const [file, targets] of imports) {
    for (const target of targets) importers.set(target, [...(importers.get(target) ?? []), file])
  }
  return reached(starts, (file) => (stopsAt(file) ? [] : (importers.get(file) ?? [])))
}

/** The files and packages that `start` imports, directly or through files of `within`. */
export function importedBy(imports, start, within) {
  return reached([start], (file) => (file.startsWith(within) ? (imports.get(file) ?? []) : []))
}

function reached(starts, next) {
  const seen = new Set(starts)
  for (const file of seen) for (const other of next(file)) seen.add(other)
  return seen
}
