/** Texts that make a careless reader look again and again at what it has seen: a part that is repeated, and an end that does not fit. */
interface TextFamily {
  readonly begin: string
  readonly part: string
  readonly end: string
}

const family = (part: string, end = '!', begin = ''): TextFamily => ({ begin, part, end })

/** By name. All are printable ASCII, a tab and one byte beyond. */
export const textFamilies: Readonly<Record<string, TextFamily>> = {
  digits: family('7'),
  'digits behind a secret name': family('7', 'x', 'key-'),
  'secret names': family('key-7777'),
  letters: family('a'),
  capitals: family('A'),
  'camel case': family('aB'),
  labels: family('a.'),
  dots: family('.'),
  slashes: family('/'),
  'dot segments': family('/..'),
  'single dots': family('/.'),
  'path parameters': family('/;a=1'),
  percents: family('%'),
  'half escapes': family('%2'),
  'encoded letters': family('%41'),
  'escapes of escapes': family('%25'),
  'encoded slashes': family('%2F'),
  blanks: family(' '),
  tabs: family('\t'),
  'blanks and tabs': family(' \t'),
  commas: family(','),
  list: family('a, '),
  'weighted list': family('a;q=0.1,'),
  semicolons: family(';'),
  pairs: family('a=1;'),
  'equal signs': family('='),
  parameters: family('a=1&'),
  'distinct parameters': family('', ''),
  'open quotes': family('"a'),
  quotes: family('"'),
  backslashes: family('\\'),
  'escaped quotes': family('\\"'),
  'open brackets': family('['),
  'open braces': family('{"a":'),
  'open parentheses': family('('),
  'open tags': family('<a'),
  colons: family('a:'),
  hyphens: family('-'),
  underscores: family('_'),
  'open expressions': family('${'),
  base64: family('QUJD', '='),
  'bytes above ASCII': family('\xe4'),
  'question marks': family('?')
}

/** A text of a family with `size` characters. */
export function textOf(name: string, size: number): string {
  const { begin, part, end } = textFamilies[name] as TextFamily
  const room = size - begin.length - end.length
  if (part !== '') return begin + part.repeat(Math.ceil(room / part.length)).slice(0, room) + end
  let text = ''
  for (let i = 0; text.length < size; i++) text += `k${i.toString(36)}=${i.toString(36)}&`
  return text.slice(0, size)
}
