import t from 'tap'
import { detectXss } from '../../../src/features/waf/detect/xss.js'
import { harmlessTexts } from './harmless.js'

const ATTACKS: Readonly<Record<string, readonly string[]>> = {
  elements: [
    '<script>alert(1)</script>',
    'x<ScRiPt src=//a.b>',
    '<script',
    '<x:script xmlns:x="http://www.w3.org/1999/xhtml" src="data:,alert(1)" />',
    '"><script>alert(1)</script>',
    '<svg/onload=alert()>',
    '<svg><animate attributeName=href to=x>',
    '<iframe src=x>',
    '<style>x{}</style>',
    '<object data=x>',
    '<embed src=x>',
    '<link rel=stylesheet href=x>',
    '<base href=//a.b>',
    '<meta http-equiv=refresh content=0>',
    '<math><mi>x',
    '<xss>',
    '<b><a <script>',
    '<!--x--><script>',
    '<!--><script>',
    '<!-- a -- b --><svg>',
    '<!--x--!><svg>',
    '<3 <script>',
    '<<script>x',
    '<script<b',
    '<script/src=//a.b>',
    '<svg:script>',
    '<body><math href=x>',
    '<svg\fonload=x>'
  ],
  declarations: [
    '<!DOCTYPE html>',
    '<!ENTITY x "y">',
    '<?xml version="1.0"?>',
    '<?import namespace=x>',
    'a<!doctype x'
  ],
  'handlers in tags': [
    '<img src=x onerror=alert(1)>',
    '<img src=x onerror=alert(1)',
    '<img src=x\nonerror\n=\nalert(1)>',
    '<a/onclick=x>',
    '<a "" onclick=x>',
    "<a title='a>b' onmouseover='x'>",
    '<p onbeforehellfreezes=x>',
    '<xml:a onclick=x>',
    '<a b=`c` onclick=x>',
    '<input autofocus onfocus=x>',
    '<details open ontoggle=x>',
    '<video><source onerror="x">',
    '<body onload=x>',
    '<x onclick>',
    '<img src=x onerror =x',
    '<a href=# onclick=x>',
    "<a b='\n' c=d onfocus=x>",
    '</a><p/ onfocus=x>'
  ],
  'addresses in tags': [
    '<a href=javascript:alert(1)>',
    '<a href="  JaVaScRiPt:alert(1)">',
    '<a href="java\tscript:alert(1)">',
    '<a href="&#106;avascript:alert(1)">',
    '<a href="&#x6a;&#x61vascript&colon;alert(1)">',
    '<a href="java&Tab;script&NewLine;:alert(1)">',
    '<a href="\x01javascript:alert(1)">',
    '<a href="vbscript:x">',
    '<a href="data:text/html,<b>">',
    '<a xlink:href="javascript:x">',
    '<form action=javascript:x>',
    '<button formaction=javascript:x>',
    '<div style="width:expression(alert(1))">',
    '<div style="w:ex/**/pre\\ssion(alert(1))">',
    '<div style="behavior: url(x)">',
    '<iframe srcdoc=x>',
    '<a href="jav&#x09;ascript:x">',
    '<a href=" &#14; javascript:x">',
    '<a href=java&#1&#2script:x>',
    '<table background="javascript:x">',
    '<p style=x:expression(y)>',
    '<p style="x:e&#x78;pression(y)">',
    '<p style="@import url(x)">',
    '<a href="javascript&#0000058;x">',
    '<a href="view-source:x">'
  ],
  'attribute values': [
    '"onmouseover=\'prompt(document.cookie)\'"',
    '" onclick="alert(1)',
    "' onfocus='alert(1)' autofocus='",
    '` onerror=alert(1) `',
    'x onerror=alert(1)',
    'x" style="width:expression(alert(1))',
    'x" href="javascript:alert(1)',
    '/a/"onload=x',
    '"/onload=x',
    "x' onwebkitanimationend='x",
    '" formaction=javascript:x',
    '" xlink:href="javascript:x',
    "' style='x:expression(y)",
    'x onfocus=alert(1) autofocus',
    '"onclick = x'
  ]
}

for (const [name, texts] of Object.entries(ATTACKS)) {
  t.test(`attacks are found: ${name}`, async (t) => {
    for (const text of texts) t.equal(detectXss(text), true, JSON.stringify(text))
  })
}

const HARMLESS: readonly string[] = [
  "<b>bold</b> <i>it's</i>",
  '<a href="https://example.com/?a=b" title="x">y</a>',
  '<img src="data:image/png;base64,AAAA" alt="x">',
  '<p style="color: red; background: url(x.png)">x</p>',
  '<!-- a comment about `onclick` -->',
  'List<Object> a = new List<Object>();',
  'a <b> c <link> d',
  'f(): Promise<Object | T>',
  'one = 1; only="x"; once=2',
  'button.onclick = handler',
  'x onclick',
  'the onclick = handler',
  'javascript: the good parts',
  'href=javascript',
  '"a" href="b"',
  '<a href="/javascript:x">y</a>',
  '<a href="https://javascript:x@y">z</a>',
  '</script>',
  '<?php echo 1 ?>',
  'x < y = z'
]

t.test('harmless texts are not found', async (t) => {
  t.same(
    [...HARMLESS, ...harmlessTexts].filter((text) => detectXss(text)),
    []
  )
})
