import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { runCommand } from '../../../cli/command.js'
import { freePort } from '../../../proxy/free-port.js'
import { NEEDS_CADDY, startCaddy } from './real-caddy.js'

/** Hash of the password "secret". */
const HASH = '$2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG'

const sites = (port: number, upstreams: readonly number[]) => `(common) {
	header X-Frame-Options DENY
}
http://shop.test:${port} {
	import common
	@old path /old/* /older
	redir @old http://new.test{uri} permanent
	@post path_regexp post ^/blog/(\\d+)$
	redir @post /posts/{re.post.1} 302
	basicauth /admin/* {
		anna ${HASH}
	}
	handle_path /api/* {
		reverse_proxy 127.0.0.1:${upstreams[0]} {
			header_up X-Client {remote_host}
		}
	}
	handle /healthz {
		respond "up" 200
	}
	handle /gone {
		respond 410
	}
	@named {
		method GET
		header X-Plan gold
	}
	handle @named {
		reverse_proxy 127.0.0.1:${upstreams[0]}
	}
	handle {
		reverse_proxy 127.0.0.1:${upstreams[1]}
	}
}
http://other.test:${port} {
	abort /never
	respond /teapot "short" 418
	respond "other" 200
}
`

interface Report {
  readonly counts: { readonly not_here: number }
  readonly proof: {
    readonly requests: number
    readonly differences: readonly { readonly explained: boolean; readonly kind: string; readonly target: string }[]
  }
}

for (const adapt of [[], ['--adapt']]) {
  t.test(`the proof passes against Caddy ${adapt.join()}`, NEEDS_CADDY, async (t) => {
    const [port = 0, ...upstreams] = [await freePort(), await freePort(), await freePort()]
    const file = await startCaddy(t, sites(port, upstreams), port)
    const words = ['import', 'caddy', file, ...adapt, '-o', 'site.yaml', '--report', 'json']
    const prove = ['--prove', '--old', `http://127.0.0.1:${port}`, '--upstreams', 'record']
    const { code, out, err } = await runCommand(t, [...words, ...prove, '--record-ports', upstreams.join()], {
      cwd: t.testdir({})
    })
    t.equal(err, '')
    const { counts, proof } = JSON.parse(out) as Report
    t.same(
      proof.differences.filter(({ explained }) => !explained),
      []
    )
    t.equal(code, 0)
    t.equal(counts.not_here, 0)
    t.ok(proof.requests > 60, `${proof.requests} requests`)
  })
}

t.test('variables stay variables through the program caddy', NEEDS_CADDY, async (t) => {
  const cwd = t.testdir({})
  await writeFile(
    join(cwd, 'Caddyfile'),
    '{$SITE:a.test} {\n\timport parts/*\n\treverse_proxy {$APP}:{$PORT:3000} {\n\t\tto {$OTHER}\n\t}\n\theader X-Zone {$ZONE}\n}\n'
  )
  await mkdir(join(cwd, 'parts'))
  await writeFile(join(cwd, 'parts', 'log'), 'request_header X-Site {$SITE:a.test}\n')
  const env = { ZONE: 'blue', APP: 'app.internal' }
  const { code, err } = await runCommand(t, ['import', 'caddy', '--adapt', 'Caddyfile', '-o', 'site.yaml'], {
    cwd,
    env
  })
  t.equal(code, 0, err)
  const site = await readFile(join(cwd, 'site.yaml'), 'utf8')
  t.match(parse(site), { sites: { '${SITE:-a.test}': {} } }, site)
  t.match(site, 'http://${APP}:${PORT:-3000}')
  t.match(site, 'http://${OTHER}')
  t.match(site, /x-zone: blue/)

  // A mark is no duration: Caddy gets the environment itself.
  await writeFile(join(cwd, 'Caddyfile'), '{\n\tgrace_period {$GRACE}\n}\n:8080 {\n\treverse_proxy {$APP}:3000\n}\n')
  const filled = await runCommand(t, ['import', 'caddy', '--adapt', 'Caddyfile'], { cwd, env: { ...env, GRACE: '5s' } })
  t.match(filled, { code: 0, out: /http:\/\/app\.internal:3000/ })
})

t.test('what the program caddy refuses, or its absence, is said', NEEDS_CADDY, async (t) => {
  const cwd = t.testdir({ Caddyfile: 'a.test {\n\tno_such_directive\n}\n' })
  const words = ['import', 'caddy', '--adapt', 'Caddyfile']
  t.match(await runCommand(t, words, { cwd }), { code: 2, err: /`caddy adapt` refuses it: .*no_such_directive/ })
  t.match(await runCommand(t, words, { cwd, env: { PATH: cwd } }), {
    code: 2,
    err: /there is no program `caddy` in PATH/
  })
  t.match(await runCommand(t, ['import', 'nginx', '--adapt', 'Caddyfile'], { cwd }), { code: 2, err: /unknown option/ })
})
