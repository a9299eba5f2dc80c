import { spawn, spawnSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { until } from '../../../helpers/until.js'

interface Test {
  teardown(run: () => unknown): void
}

/** Options of tests that need Caddy. */
export const NEEDS_CADDY =
  spawnSync('caddy', ['version']).status === 0 ? {} : { skip: 'caddy is not installed (Debian: caddy)' }

/** Runs Caddy with a Caddyfile whose sites answer at `port`; answers with the file. */
export async function startCaddy(t: Test, sites: string, port: number): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-caddy-'))
  const file = join(folder, 'Caddyfile')
  await writeFile(file, `{\n\tadmin off\n\tauto_https off\n}\n${sites}`)
  const env = { ...process.env, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
  const child = spawn('caddy', ['run', '--config', file, '--adapter', 'caddyfile'], {
    env,
    stdio: ['ignore', 'ignore', 'pipe']
  })
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text
  })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  t.teardown(async () => {
    child.kill('SIGTERM')
    await ended
    await rm(folder, { recursive: true, force: true })
  })
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`caddy ended: ${errors}`)
    return await fetch(`http://127.0.0.1:${port}/`, { redirect: 'manual' }).then(
      () => true,
      () => false
    )
  })
  return file
}
