import { spawnSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { peerProgram } from '../../../helpers/peer-program.js'

interface Test {
  teardown(run: () => unknown): void
}

/** Options of tests that need Caddy. */
export const NEEDS_CADDY =
  spawnSync('caddy', ['version']).status === 0 ? {} : { skip: 'caddy is not installed (Debian: caddy)' }

/** Runs Caddy with a Caddyfile whose sites answer at `port`; answers with the file. */
export async function startCaddy(t: Test, sites: string, port: number): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-caddy-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'Caddyfile')
  await writeFile(file, `{\n\tadmin off\n\tauto_https off\n}\n${sites}`)
  const env = { ...process.env, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
  await peerProgram(t, port, 'caddy', ['run', '--config', file, '--adapter', 'caddyfile'], { env })
  return file
}
