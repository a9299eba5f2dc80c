import t from 'tap'
import { parseCaddyfile } from '../../../src/capabilities/import/caddy/syntax.js'
import { parseHaproxy } from '../../../src/capabilities/import/haproxy/syntax.js'
import { parseNginx } from '../../../src/capabilities/import/nginx/syntax.js'
import { parseRule } from '../../../src/capabilities/import/traefik/rules.js'
import { fastGrowth } from '../../helpers/growth.js'

/** Texts that repeat one piece are read, or refused, in time that grows with their length. */
const READERS: Readonly<
  Record<string, { readonly read: (text: string) => unknown; readonly pieces: readonly string[] }>
> = {
  nginx: {
    read: (text) => parseNginx(text, 'f'),
    pieces: ['a;', 'a b;\n', '"', "'a", '\\', '${', '#\n', 'a {} ', '{', 'x_by_lua_block {} ', 'x_by_lua_block { { ']
  },
  caddy: {
    read: (text) => parseCaddyfile(text, 'f'),
    pieces: ['a {\n}\n', '"', '`a` ', '\\\n', '\\', '#\n', 'a <<E\nE\n', '<<E\n', ',', '{$A:', 'a {\n']
  },
  haproxy: {
    read: (text) => parseHaproxy(text, 'f'),
    pieces: ['listen a\n', '"', "'a' ", '\\', '#\n', '%[', '{ a } ', 'acl a b\n']
  },
  'rules of Traefik': {
    read: (text) => parseRule(text),
    pieces: ['Host(`a`) && ', '(', '!', '`', 'Host(', '"a", ']
  }
}

for (const [name, { read, pieces }] of Object.entries(READERS)) {
  t.test(`${name}: no text takes more than its length`, async (t) => {
    for (const piece of pieces) {
      const input = (size: number) => piece.repeat(Math.ceil(size / piece.length))
      const run = (text: string) => {
        try {
          read(text)
        } catch (error) {
          if (!(error instanceof Error)) throw error
        }
      }
      // A quarter of it must be too large for the young generation of the heap, or garbage collection makes the growth.
      t.equal(await fastGrowth(1_600_000, input, run), undefined, JSON.stringify(piece))
    }
  })
}
