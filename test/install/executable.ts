import { execFile, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, open, readFile, rename } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { until } from '../helpers/until.js'

const run = promisify(execFile)

/**
 * Returns the executable of this machine, with its bill of materials and `release.json` beside it: the one that TEST_BINARY names, or one that
 * is built once for a run of tests.
 */
export async function executable(): Promise<string> {
  const { TEST_BINARY, TEST_FOLDER } = process.env
  if (TEST_BINARY !== undefined) return TEST_BINARY
  const folder = join(TEST_FOLDER ?? (await mkdtemp(join(tmpdir(), 'sluice-executable-'))), 'executable')
  const binary = join(folder, 'sluice')
  if (existsSync(binary)) return binary
  try {
    await mkdir(`${folder}.new`)
  } catch {
    // Another file of this run builds it.
    await until(async () => existsSync(binary))
    return binary
  }
  await buildProduct()
  await run(process.execPath, ['config/binary.mjs', '--out', join(`${folder}.new`, 'sluice')])
  await rename(`${folder}.new`, folder)
  return binary
}

/** Builds the executable for a processor of the ARM architecture in `folder`. */
export async function armExecutable(folder: string): Promise<string> {
  const binary = join(folder, 'sluice')
  if (!existsSync(join('dist', 'program.cjs'))) await buildProduct()
  await run(process.execPath, ['config/binary.mjs', '--arch', 'arm64', '--out', binary])
  return binary
}

async function buildProduct(): Promise<void> {
  await run(process.execPath, ['config/build.mjs', 'dist'])
}

/** Starts a program whose standard output goes to a file, which a successor can open; resolves with its line `listening`. */
export async function startInto(
  t: { teardown(run: () => unknown): void },
  [program = '', ...words]: readonly string[],
  { cwd, env, log }: { cwd: string; env: Record<string, string>; log: string }
) {
  await mkdir(dirname(log), { recursive: true })
  const output = await open(log, 'a')
  const child = spawn(program, words, { cwd, env, stdio: ['ignore', output.fd, 'pipe'] })
  await output.close()
  let said = ''
  child.stderr?.on('data', (piece) => {
    said += piece
  })
  t.teardown(() => child.kill('SIGKILL'))
  const line = async () => (await readFile(log, 'utf8')).split('\n').find((each) => each.includes('"msg":"listening"'))
  await until(async () => (await line()) !== undefined || child.exitCode !== null)
  const found = await line()
  if (found === undefined) throw new Error(`it ended with ${child.exitCode}: ${said}`)
  return { child, said: () => said, ...(JSON.parse(found) as { traffic: string; api: string }) }
}
