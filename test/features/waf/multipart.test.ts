import t from 'tap'
import { type MultipartFlags, readMultipart } from '../../../src/features/waf/bodies/multipart.js'

const TYPE = 'multipart/form-data; boundary=XX'

/** Lines are joined by CRLF. */
const read = (lines: readonly string[], contentType = TYPE, truncated = false) =>
  readMultipart(Buffer.from(lines.join('\r\n'), 'latin1'), { contentType, truncated })

const part = (disposition: string, ...more: string[]) => [
  '--XX',
  `Content-Disposition: form-data; ${disposition}`,
  ...more,
  '',
  'content'
]

const flagsOf = (lines: readonly string[], contentType = TYPE) => {
  const { flags } = read(lines, contentType)
  return (Object.keys(flags) as (keyof MultipartFlags)[]).filter((flag) => flags[flag])
}

const shown = (lines: readonly string[], contentType = TYPE) =>
  read(lines, contentType)
    .values.filter(({ collection }) => collection !== 'MULTIPART_PART_HEADERS')
    .map(({ collection, name, value }) => `${collection}:${name}=${value}`)

t.test('fields, files and headers of parts', async (t) => {
  const result = read([
    ...part('name="a"'),
    ...part('name="f"; filename="x.txt"', 'Content-Type: text/plain; charset=utf-8'),
    '--XX--',
    ''
  ])
  t.same(result.values, [
    { collection: 'MULTIPART_PART_HEADERS', name: 'a', value: 'Content-Disposition: form-data; name="a"' },
    { collection: 'ARGS_POST', name: 'a', value: 'content' },
    {
      collection: 'MULTIPART_PART_HEADERS',
      name: 'f',
      value: 'Content-Disposition: form-data; name="f"; filename="x.txt"'
    },
    { collection: 'MULTIPART_PART_HEADERS', name: 'f', value: 'Content-Type: text/plain; charset=utf-8' },
    { collection: 'FILES_NAMES', name: 'f', value: 'f' },
    { collection: 'FILES', name: 'f', value: 'x.txt' }
  ])
  t.equal(result.filesSize, 7)
  t.equal(result.strictError, false)
  t.equal(result.error, undefined)
})

t.test('names and file names', async (t) => {
  for (const [disposition, expected] of [
    ['name="fi;le"; filename="te;st"', ['FILES_NAMES:fi;le=fi;le', 'FILES:fi;le=te;st']],
    ['name=plain; filename=x.php', ['FILES_NAMES:plain=plain', 'FILES:plain=x.php']],
    ['name="q\\"uo\\\\te"', ['ARGS_POST:q"uo\\te=content']],
    ['name="f"; filename="..\\1.7z"', ['FILES_NAMES:f=f', 'FILES:f=..\\1.7z']],
    ['name="f"; filename=""', ['FILES_NAMES:f=f', 'FILES:f=']],
    [
      'NAME="f"; filename="safe.txt"; FileName*=UTF-8\'en\'sh%65ll%2ephp',
      ['FILES_NAMES:f=f', 'FILES:f=safe.txt', 'FILES:f=shell.php']
    ],
    ['name="f"; filename*=no%41quotes', ['FILES_NAMES:f=f', 'FILES:f=noAquotes']]
  ] as const) {
    const lines = [...part(disposition), '--XX--']
    t.same(shown(lines), expected, disposition)
    t.same(flagsOf(lines), [], disposition)
  }
})

t.test('content may hold line ends and beginnings of boundaries', async (t) => {
  const lines = [...part('name="a"'), '', '--X', 'x--XX', '--XX--']
  t.same(shown(lines), ['ARGS_POST:a=content\r\n\r\n--X\r\nx--XX'])
  t.same(flagsOf(lines), [])
})

t.test('line feeds alone are read', async (t) => {
  const { values, flags, strictError } = read([[...part('name="a"'), '--XX--', ''].join('\n')])
  t.equal(values.at(-1)?.value, 'content')
  t.equal(flags.lfLine, true)
  t.equal(strictError, false)
})

t.test('deviations set flags and hide nothing', async (t) => {
  const good = part('name="a"')
  const cases: readonly (readonly [keyof MultipartFlags, readonly string[], string?])[] = [
    ['boundaryQuoted', [...good, '--XX--'], 'multipart/form-data; boundary="XX"'],
    ['dataBefore', ['preamble', ...good, '--XX--']],
    ['dataAfter', [...good, '--XX--', 'epilogue']],
    ['dataAfter', [...good, '--XX--epilogue']],
    ['headerFolding', [...part('name="a"', ' ; x=y'), '--XX--']],
    ['crlfLfLines', [...part('name="a"', 'X: y\nZ: z'), '--XX--']],
    ['invalidQuoting', [...part('name="a" x'), '--XX--']],
    ['invalidQuoting', [...part('name="a'), '--XX--']],
    ['invalidPart', [...part('name="a"; name="b"'), '--XX--']],
    ['invalidPart', [...part('name="a"', 'no colon'), '--XX--']],
    ['unmatchedBoundary', [...good, '--XXY', '--XX--']],
    ['missingEnd', [...good, '']]
  ]
  for (const [flag, lines, type] of cases) {
    t.ok(flagsOf(lines, type).includes(flag), `${flag}: ${JSON.stringify(lines)}`)
    t.equal(read(lines, type).strictError, true, flag)
    t.ok(
      read(lines, type).values.some(({ value }) => value.startsWith('content')),
      flag
    )
  }
  t.same(shown([...part('name="a"; name="b"'), '--XX--']), ['ARGS_POST:b=content', 'ARGS_POST:a=content'])
  t.same(shown(['--XX', 'X-Other: y', '', 'content', '--XX--']), ['ARGS_POST:=content'])
})

t.test('boundaries', async (t) => {
  for (const [type, error] of [
    ['multipart/form-data', 'the multipart body has no boundary'],
    ['multipart/form-data; boundary=', 'the multipart body has no boundary'],
    ['multipart/form-data; boundary=a; boundary=XX', 'the multipart body has two boundaries'],
    [`multipart/form-data; boundary=${'x'.repeat(300)}`, 'the multipart boundary is too long'],
    ['multipart/form-data; boundary=YY', 'the multipart body does not contain its boundary']
  ] as const) {
    t.equal(read([...part('name="a"'), '--XX--'], type).error, error, type)
    t.equal(read([...part('name="a"'), '--XX--'], type).strictError, true)
  }
  t.same(shown([...part('name="a"'), '--XX--'], 'Multipart/Form-Data; charset=x; BOUNDARY = "XX"'), [
    'ARGS_POST:a=content'
  ])
})

t.test('truncated bodies yield what is there', async (t) => {
  const whole = [...part('name="a"'), ...part('name="b"'), '--XX--'].join('\r\n')
  for (let length = 0; length < whole.length; length++) {
    const { error, flags } = read([whole.slice(0, length)], TYPE, true)
    t.equal(error, undefined, String(length))
    t.equal(flags.missingEnd, false)
  }
  t.same(read([whole.slice(0, -12)], TYPE, true).values.at(-1), { collection: 'ARGS_POST', name: 'b', value: 'con' })
})

t.test('headers of a part are limited', async (t) => {
  t.match(read(['--XX', `X: ${'y'.repeat(20_000)}`, '', 'content', '--XX--']).error ?? '', /headers of a part/)
})
