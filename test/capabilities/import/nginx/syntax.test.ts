import t from 'tap'
import { type Directive, directiveText, parseNginx } from '../../../../src/capabilities/import/nginx/syntax.js'
import { CodedError } from '../../../../src/lib/errors.js'
import { importNginx } from '../kit.js'

const plain = ({ name, args, block }: Directive): unknown =>
  block === undefined ? [name, ...args] : [name, ...args, block.map(plain)]

t.test('words, texts, blocks and comments', (t) => {
  const cases: [string, unknown][] = [
    ['a b;', [['a', 'b']]],
    ['a "b c" \'d;e\';', [['a', 'b c', 'd;e']]],
    ['a b { c; } d;', [['a', 'b', [['c']]], ['d']]],
    ['# nothing\na b#c; # more\n', [['a', 'b#c']]],
    ['location ~ \\.php$ { }', [['location', '~', '\\.php$', []]]],
    ['a "\\"" \'\\\'\' \\\\ \\n;', [['a', '"', "'", '\\', '\n']]],
    ['a ${b}c{ d; }', [['a', '${b}c', [['d']]]]],
    ['location ~ ^/[0-9]{3}$ {}', undefined],
    ['location ~ "^/[0-9]{3}$" {}', [['location', '~', '^/[0-9]{3}$', []]]],
    ['if ($a = "") { b; }', [['if', '($a', '=', '', ')', [['b']]]]],
    ['content_by_lua_block { if x then { y } end } a;', [['content_by_lua_block', []], ['a']]],
    ['\ufeffa;', [['a']]]
  ]
  for (const [text, expected] of cases) {
    if (expected === undefined) t.throws(() => parseNginx(text, 'f'), { code: 'IMPORT_SYNTAX' }, text)
    else t.same(parseNginx(text, 'f').map(plain), expected, text)
  }
  t.end()
})

t.test('mistakes are named with their place', (t) => {
  const cases: [string, RegExp][] = [
    ['a {\n b', /^f:2:2: "b" has no ";"/],
    ['a {\n b;', /^f:2:4: a block has no closing brace/],
    ['a;\n}', /^f:2:1: "}" closes no block/],
    ['a\n"b', /^f:2:1: a text that begins with " does not end/],
    ['a "b"c;', /^f:1:6: "c" follows a quoted text/],
    ['a { b }', /^f:1:5: "b" has no ";"/],
    [' ;', /^f:1:2: ";" follows no directive/],
    ['a {'.repeat(100), /nested deeper than 64/]
  ]
  for (const [text, message] of cases)
    t.throws(() => parseNginx(text, 'f'), { code: 'IMPORT_SYNTAX', message }, text.slice(0, 20))
  t.end()
})

const SEED =
  'server { listen 80; server_name "a b" ${c}; # d\n location ~* ^/(x|y)\\.png$ { if ($a = \'b\') { return 301 /c; } } }\n'

t.test('whatever the text is, it is read or refused with a place', (t) => {
  // A generator of its own, so that a failure can be repeated.
  let state = 42
  const random = (limit: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return state % limit
  }
  const pieces = ['{', '}', ';', '"', "'", '\\', '$', '${', '#', '\n', ' ', 'a', '\u0000', '_by_lua_block', 'é']
  let read = 0
  for (let round = 0; round < 5000; round++) {
    let text = SEED
    for (let change = random(6); change >= 0; change--) {
      const at = random(text.length + 1)
      text =
        text.slice(0, at) +
        (random(3) === 0 ? '' : (pieces[random(pieces.length)] as string)) +
        text.slice(at + random(4))
    }
    try {
      for (const directive of parseNginx(text, 'f')) t.type(directiveText(directive), 'string')
      read++
    } catch (error) {
      if (!(error instanceof CodedError) || error.code !== 'IMPORT_SYNTAX' || !/^f:\d+:\d+: /.test(error.message)) {
        t.fail(`${JSON.stringify(text)}: ${error}`)
      }
    }
  }
  t.ok(read > 100 && read < 5000, `${read} texts were read`)
  t.end()
})

t.test('a thousand lines take at most 300 ms of CPU', async (t) => {
  const location = (number: number) => `  location /app${number}/ {
    proxy_pass http://10.0.0.${number % 250}:3000/;
    proxy_set_header Host $host;
    proxy_set_header X-Real-IP $remote_addr;
    add_header X-Number ${number};
  }`
  const servers = Array.from({ length: 10 }, (_, host) => {
    const inside = Array.from({ length: 16 }, (_, number) => location(host * 16 + number)).join('\n')
    return `server {\n  server_name host${host}.test;\n${inside}\n  location ~ \\.(png|css)$ { return 404; }\n}`
  })
  const text = servers.join('\n')
  t.ok(text.split('\n').length >= 990)
  await importNginx(SEED)
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < 3; round++) {
    const before = process.cpuUsage()
    const { statements } = await importNginx(text)
    const { user, system } = process.cpuUsage(before)
    least = Math.min(least, (user + system) / 1000)
    t.ok(statements.length > 800)
  }
  t.ok(least <= 300, `${Math.round(least)} ms`)
})
