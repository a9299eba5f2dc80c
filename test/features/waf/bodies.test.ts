import t from 'tap'
import { readJson } from '../../../src/features/waf/bodies/json.js'
import { readUrlencoded } from '../../../src/features/waf/bodies/urlencoded.js'
import type { BodyOptions, BodyResult } from '../../../src/features/waf/bodies/values.js'
import { readXml } from '../../../src/features/waf/bodies/xml.js'

const bytes = (text: string) => Buffer.from(text, 'latin1')

/** Values as `name=value`, then the error. */
function shown({ values, error }: BodyResult): string[] {
  return [...values.map(({ name, value }) => `${name}=${value}`), ...(error === undefined ? [] : [`! ${error}`])]
}

t.test('forms', async (t) => {
  const form = (text: string, options?: BodyOptions) => readUrlencoded(bytes(text), options)
  t.same(form('a=1&b=%41+c&a=2&d&=e&&f==').values, [
    { collection: 'ARGS_POST', name: 'a', value: '1' },
    { collection: 'ARGS_POST', name: 'b', value: 'A c' },
    { collection: 'ARGS_POST', name: 'a', value: '2' },
    { collection: 'ARGS_POST', name: 'd', value: '' },
    { collection: 'ARGS_POST', name: '', value: 'e' },
    { collection: 'ARGS_POST', name: 'f', value: '=' }
  ])
  t.same(shown(form('')), [])
  t.equal(form('a=%zz').invalidEncoding, true)
  t.equal(form('a=%20').invalidEncoding, false)
  t.same(shown(form('a=1&b=2&c=3', { maxValues: 2 })), ['a=1', 'b=2', '! the body has more than 2 value(s)'])
  t.same(shown(form('a=1&b=2222', { maxBytes: 4 })), ['a=1', '! names and values have more than 4 byte(s)'])
})

const json = (text: string, options?: BodyOptions) => shown(readJson(bytes(text), options))

t.test('JSON', async (t) => {
  t.same(json('{"a":{"b":[1,true,null,"x"]},"c":-1.5e3}'), [
    'json.a.b.0=1',
    'json.a.b.1=true',
    'json.a.b.2=',
    'json.a.b.3=x',
    'json.c=-1.5e3'
  ])
  t.same(json(' "top" '), ['json=top'])
  t.same(json('[[],{},[[2]]]'), ['json.2.0.0=2'])
  t.same(json('\xef\xbb\xbf{"a":"b"}'), ['json.a=b'])
  t.same(json('{"a":1,"a":2,"":3}'), ['json.a=1', 'json.a=2', 'json.=3'])
  t.same(json('{"a":"\\u0041\\n\\/\\"\\u00e9\\ud83d\\ude00\\ud83d"}'), [
    `json.a=A\n/"${Buffer.from('é😀\ufffd').toString('latin1')}`
  ])
  t.same(json('{"a":"line\nbreak"}'), ['json.a=line\nbreak'])
})

t.test('JSON with mistakes keeps the values before them', async (t) => {
  for (const [text, at] of [
    ['{"a":1,}', 7],
    ['{"a":1}x', 7],
    ['{"a":tru}', 5],
    ['{"a" 1}', 5],
    ["{'a':1}", 1],
    ['[1}', 2],
    ['{"a":"\\x"}', 6],
    ['{"a":"\\u00g0"}', 6],
    ['[0x1]', 1]
  ] as const)
    t.equal(json(text).at(-1), `! the JSON body is invalid at byte ${at}`, text)
  t.same(json('{"a":"1","b":'), ['json.a=1', '! the JSON body ends too early'])
  t.same(json(''), ['! the JSON body ends too early'])
})

t.test('truncated JSON yields what is there', async (t) => {
  const whole = '{"a":["x\\u0041y",12,true],"b":{"c":"<script>"}}'
  for (let length = 0; length < whole.length; length++) {
    const found = json(whole.slice(0, length), { truncated: true })
    t.notOk(
      found.some((line) => line.startsWith('!')),
      whole.slice(0, length)
    )
  }
  t.same(json('{"a":"<scr', { truncated: true }), ['json.a=<scr'])
})

t.test('nesting of JSON is limited', async (t) => {
  t.same(json(`${'['.repeat(64)}1${']'.repeat(64)}`), [`json${'.0'.repeat(64)}=1`])
  t.same(json('['.repeat(65)), ['! the JSON body is nested deeper than 64'])
})

t.test('strings of JSON are those of the language', async (t) => {
  const strings = ['', '"', '\\', 'ä€😀', '\u0000\u001f\u2028', 'a"b\\c/d']
  for (const text of strings) {
    const expected = Buffer.from(text).toString('latin1')
    t.same(json(Buffer.from(JSON.stringify({ k: text })).toString('latin1')), [`json.k=${expected}`])
  }
})

const xml = (text: string, options?: BodyOptions) => shown(readXml(bytes(text), options))

t.test('XML', async (t) => {
  t.same(xml('<?xml version="1.0"?><r a="1" b=\'&lt;x&#x41;&quot;\'> t <c/>u&amp;v</r>'), [
    '//@*=1',
    '//@*=<xA"',
    '/*=t',
    '/*=u&v'
  ])
  t.same(xml('<r>un<!-- x -->ion<![CDATA[ <b>&amp; ]]></r>'), ['/*=union <b>&amp;'])
  t.same(xml('<r x = "a>b"/>'), ['//@*=a>b'])
  t.same(xml('<r>&#x20ac;&#65;</r>'), ['/*=\xe2\x82\xacA'])
  t.same(xml('<n:r xmlns:n="u"></n:r>'), ['//@*=u'])
})

t.test('XML with mistakes keeps its values', async (t) => {
  t.same(xml('<!DOCTYPE r [<!ENTITY x SYSTEM "file:///a]>">]><r>&x;</r>'), [
    '/*=&x;',
    '! the XML body has a document type declaration'
  ])
  t.same(xml('<r a=1 b>t</s>'), ['//@*=1', '//@*=b', '/*=t', '! the value of an attribute has no quotes'])
  t.same(xml('<r>t</s>'), ['/*=t', '! an end tag has no start tag'])
  t.same(xml('<r>t'), ['/*=t', '! the XML body ends inside of an element'])
  t.same(xml('text'), ['/*=text', '! the XML body has no element'])
  t.same(xml('<r>&nbsp;&#;&#xg;&</r>'), ['/*=&nbsp;&#;&#xg;&', '! an entity is unknown'])
  t.match(xml('<\0r\0>\0').at(-1) ?? '', /NUL bytes/)
  t.match(xml('<a>'.repeat(300)).at(-1) ?? '', /nested deeper than 256/)
})

t.test('truncated XML yields what is there', async (t) => {
  const whole = '<?xml version="1.0"?><r a="1"><!-- c --><b c="2">text</b><![CDATA[x]]></r>'
  for (let length = 0; length < whole.length; length++) {
    const found = xml(whole.slice(0, length), { truncated: true })
    t.notOk(
      found.some((line) => line.startsWith('!')),
      whole.slice(0, length)
    )
  }
  t.same(xml('<r><a x="<scr', { truncated: true }), ['//@*=<scr'])
})
