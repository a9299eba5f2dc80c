import { spawnSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { runCommand } from '../../../cli/command.js'
import { peerProgram } from '../../../helpers/peer-program.js'
import { freePort } from '../../../proxy/free-port.js'

const PROGRAM = ['haproxy', '/usr/sbin/haproxy'].find((name) => spawnSync(name, ['-v']).status === 0)

const text = (port: number, upstreams: readonly number[]) => `global
  maxconn 100
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
  option forwardfor
frontend web
  bind 127.0.0.1:${port}
  acl is_api path_beg /api/
  http-request set-header X-Client %[src]
  http-request return status 200 content-type text/plain string "up" if { path /up }
  http-request deny deny_status 404 if { path_beg /.git }
  http-request redirect location /new code 301 if { path /old }
  http-response set-header X-Frame-Options DENY
  use_backend api if is_api
  use_backend api if { hdr(host) -i api.test }
  default_backend app
backend api
  server a 127.0.0.1:${upstreams[0]}
backend app
  server a 127.0.0.1:${upstreams[1]}
`

interface Report {
  readonly counts: { readonly not_here: number }
  readonly proof: {
    readonly requests: number
    readonly differences: readonly { readonly explained: boolean; readonly kind: string; readonly target: string }[]
  }
}

t.test(
  'the proof passes against HAProxy',
  PROGRAM === undefined ? { skip: 'haproxy is not installed (Debian: haproxy)' } : {},
  async (t) => {
    const [port = 0, ...upstreams] = [await freePort(), await freePort(), await freePort()]
    const folder = await mkdtemp(join(tmpdir(), 'sluice-haproxy-'))
    t.teardown(() => rm(folder, { recursive: true, force: true }))
    const file = join(folder, 'haproxy.cfg')
    await writeFile(file, text(port, upstreams))
    await peerProgram(t, port, PROGRAM as string, ['-db', '-f', file], {
      ready: () =>
        fetch(`http://127.0.0.1:${port}/up`).then(
          ({ status }) => status === 200,
          () => false
        )
    })
    const words = ['import', 'haproxy', file, '-o', 'site.yaml', '--report', 'json']
    const prove = ['--prove', '--old', `http://127.0.0.1:${port}`, '--upstreams', 'record']
    const { code, out, err } = await runCommand(t, [...words, ...prove, '--record-ports', upstreams.join()], {
      cwd: t.testdir({})
    })
    t.equal(err, '')
    t.ok(code === 0 || code === 1, `exit code ${code}`)
    const { counts, proof } = JSON.parse(out) as Report
    t.same(
      // HAProxy refuses handshakes of WebSocket that it finds incomplete, and has a page for what is no path.
      proof.differences.filter(
        ({ explained, kind, target }) => !explained && kind !== 'upgrade' && target.startsWith('/')
      ),
      []
    )
    t.equal(counts.not_here, 0)
    t.ok(proof.requests > 40, `${proof.requests} requests`)
  }
)
