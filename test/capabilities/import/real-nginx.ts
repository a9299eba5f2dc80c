import { spawnSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { peerProgram } from '../../helpers/peer-program.js'

interface Test {
  teardown(run: () => unknown): void
}

const PROGRAM = ['nginx', '/usr/sbin/nginx'].find((name) => spawnSync(name, ['-v']).status === 0)

/** Options of tests that need nginx. */
export const NEEDS_NGINX = PROGRAM === undefined ? { skip: 'nginx is not installed (Debian: nginx-light)' } : {}

/** Main block of a configuration that one process in the foreground serves from a folder. */
function around(http: string, folder: string): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`
  )
  return `daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log;
events { worker_connections 512; }
http { access_log off; server_names_hash_max_size 4096; ${temporary.join(' ')}
${http}
}`
}

/** Runs nginx with the content of its `http` block, which listens at `port`; answers with the file. */
export async function startNginx(t: Test, http: string, port: number): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-nginx-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'nginx.conf')
  await writeFile(file, around(http, folder))
  await peerProgram(t, port, PROGRAM as string, ['-p', folder, '-c', file])
  return file
}

/** An upstream that answers with the field `x-winner` that it got. */
export async function startEcho(t: Test): Promise<number> {
  const server: Server = createServer((request, response) => response.end(String(request.headers['x-winner'])))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    return new Promise<void>((resolve) => server.close(() => resolve()))
  })
  return (server.address() as AddressInfo).port
}
