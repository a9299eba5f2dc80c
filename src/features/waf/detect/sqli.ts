import { readSqlTokens, type SqlContext, type SqlToken } from './sql-tokens.js'
import { SQL_FUNCTIONS, SQL_PAIRS, type SqlKind } from './sql-words.js'

/** Greatest length of a fingerprint. */
const MAX_FINGERPRINT = 16

/** Pattern of a SELECT statement. In prose, the word `select` precedes a name. */
const SELECT = 'E(?:[1sfDvt(]|a[k,(]|n[,k(c.])'

/** Patterns after a complete value that only attacks have. */
const ATTACKS: readonly string[] = [
  // OR 1=1, AND id='1', OR name LIKE 'a', OR x IS NULL
  '[&|]\\(*(?:[1svt]\\)*[ow][(1svntfDE]|no[1sv]|non[c;]|nws|[1svn]z)',
  // AND (SELECT …), OR sleep(5), AND CASE …
  `[&|]\\(*(?:${SELECT}|[fDC])`,
  // OR 1 --, OR TRUE; with the end of the statement
  '[&|]\\(*[1t](?:[c;]|k1)',
  // UNION SELECT
  `U\\(*${SELECT}`,
  // Stacked statements
  `;+(?:T|W|D|${SELECT})`,
  // WAITFOR DELAY '0:0:5' without a separator
  'W',
  // ORDER BY 1 --, HAVING 1=1
  'B\\(*(?:1(?:[,c;ok]|$)|[fD]|s?o|n[cB])',
  // INTO OUTFILE
  '.{0,10}K[s1]',
  // = (SELECT …), , (SELECT …)
  `[oaw+,]\\(+${SELECT}`,
  // - sleep(5)
  '[a+,o]\\(*D'
]

/** Patterns of a text by itself. */
const BARE = new RegExp(
  [
    `^[1vst]\\)*(?:${ATTACKS.join('|')})`,
    // A single name before it.
    `^n(?:o[1s])?\\)*(?:[&|]\\(*(?:1o1|sos|D)|U\\(*E(?:[1sfDv(]|ak)|;+(?:W|Tn?(?:[;c]|$)))`,
    // A call and nothing else
    '^D\\([1s][1snva,]*\\)*[;c]?$',
    '^f\\(.{0,12}D\\(',
    // A statement
    `^\\(*E(?:ak|\\([1s]\\)*k|a,|[1st][k,U]|f|D|v|\\(${SELECT})`,
    '^;*(?:W|Tn(?:[;c]|k\\(|kn[ow]))',
    'X.*[UETW]'
  ].join('|')
)

/** Patterns of a text inside of a string: it begins with the rest of that string. */
const QUOTED = new RegExp(
  [
    `^s\\)*(?:${ATTACKS.join('|')}|D\\([1snv])`,
    // The rest of the statement is a comment.
    '^s(?:,[1sn])*\\)*;?c$',
    '^s\\)*[aow+]+[1s]c$',
    // || TRUE
    '^s\\)*[|]\\(*[1t]$',
    // = '' OR ''=''
    '^s\\)*[ow][1sv][&|]\\(*[1svn][owz]',
    'X.*[UETW]'
  ].join('|')
)

/** An expression that leaves the string and comes back to it: `' + x + '`. */
const EMBEDDED = /^s[+|][n1fDv().,a?&]{2,}[+|]s$/

/**
 * Returns the fingerprint of an SQL injection, undefined for harmless text. The text is read by itself, and as the continuation of a string
 * in single and double quotes; its first tokens are folded to letters (see `SqlKind`) and compared with the shapes of attacks. The
 * method is that of libinjection (Galbreath 2012); words and shapes are of this module.
 */
export function detectSqli(text: string): string | undefined {
  const bare = fingerprintIn(text, '')
  if (BARE.test(bare.letters)) return bare.letters
  for (const quote of ["'", '"'] as const) {
    if (!text.includes(quote)) continue
    const { letters, embedded } = fingerprintIn(text, quote)
    if (QUOTED.test(letters) || (embedded && EMBEDDED.test(letters))) return letters
  }
  return undefined
}

interface Fingerprint {
  readonly letters: string
  /** True if the last token is a string that has no end in the text. */
  readonly embedded: boolean
}

function fingerprintIn(text: string, context: SqlContext): Fingerprint {
  const tokens = readSqlTokens(text, context)
  const letters = fold(kinds(tokens), context)
  return { letters: letters.slice(0, MAX_FINGERPRINT), embedded: tokens.at(-1)?.open === true }
}

/** Returns kinds of tokens after words that belong together have become one. */
function kinds(tokens: readonly SqlToken[]): SqlKind[] {
  const found: SqlKind[] = []
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i] as SqlToken
    const next = tokens[i + 1]
    const call = token.word !== '' && next?.kind === '(' ? SQL_FUNCTIONS.get(token.word) : undefined
    const pair =
      token.word === '' || next === undefined || next.word === ''
        ? undefined
        : SQL_PAIRS.get(`${token.word} ${next.word}`)
    if (call !== undefined && (call === 'D' || next?.spaced === false)) found.push(call)
    else if (pair !== undefined) {
      i++
      const truth = pair === 'N' ? tokens[i + 1]?.kind : undefined
      if (truth === '1' || truth === 't') i++
      // IS NOT NULL; in prose, other words follow "is not".
      if (pair !== 'N') found.push(pair)
      else found.push(truth === '1' || truth === 't' ? 'z' : 'n')
    } else if (token.word === 'collate' && next?.kind === 'n') {
      // A collation changes no value.
      i++
    } else found.push(phraseKind(tokens, i))
  }
  return found
}

/** Kinds of tokens that depend on what follows. */
function phraseKind(tokens: readonly SqlToken[], i: number): SqlKind {
  const { kind, word } = tokens[i] as SqlToken
  const next = tokens[i + 1]
  if (word === 'in' && next?.kind === '(') return 'w'
  if (word === 'update' && next?.kind === 'n' && tokens[i + 2]?.word === 'set') return 'T'
  if (word === 'declare' && next?.kind === 'v') return 'W'
  if (word === 'shutdown' && (next === undefined || next.kind === 'c' || next.kind === ';')) return 'T'
  return kind
}

/** Folds what means the same: signs, NOT, dotted names and arithmetic. */
function fold(found: readonly SqlKind[], context: SqlContext): string {
  let out = ''
  for (const kind of found) {
    const last = out.at(-1) ?? ''
    const afterOperator = out === '' ? context === '' : '&|(oaw,'.includes(last)
    // A sign, NOT or an opening parenthesis before a value
    if (afterOperator && (kind === 'N' || kind === '-' || kind === '+')) continue
    if (out === '' && context === '' && kind === '(') continue
    if (isNamed(kind) && out.endsWith('n.') && (kind === 'n' || out !== 'n.')) out = `${out.slice(0, -2)}${kind}`
    else if (kind === 's' && last === 's') continue
    else if (isOperand(kind) && last === 'a' && isOperand(out.at(-2) ?? '')) {
      // 1-1 is a number, a-b a name.
      out = out.slice(0, -1)
      if (kind === 'n') out = `${out.slice(0, -1)}n`
    } else out += kind === '-' ? 'a' : kind
    if (out.length > MAX_FINGERPRINT) break
  }
  return out
}

/** A name, or a function that a name of a package may precede. */
const isNamed = (kind: SqlKind) => kind === 'n' || kind === 'f' || kind === 'D'

const isOperand = (kind: SqlKind) => kind === '1' || kind === 'n' || kind === 'v'
