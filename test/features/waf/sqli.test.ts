import t from 'tap'
import { detectSqli } from '../../../src/features/waf/detect/sqli.js'
import { harmlessTexts } from './harmless.js'

/** Attacks by their way into a statement. */
const ATTACKS: Readonly<Record<string, readonly string[]>> = {
  'numbers and names': [
    '1 OR 1=1',
    '1 or 2>1',
    '-1 || 1=1',
    '(1) or (1)=(1)',
    '1))) or ((1=1',
    '1/**/or/**/1=1',
    '1 or/*!50000 1=1*/',
    '1or 1=1',
    '0x31 or 1=1',
    '1e0 or 1=1',
    '1.5 and 2=2',
    "1 and 'a'='a'",
    "1 and 'a' like 'a'",
    '1 and id is not null',
    '1 or true--',
    '1 or not 1=2',
    '1 or 1 in (1)',
    '1 and sleep(5)',
    '1-sleep(5)',
    '1 and ascii(substr((select 1),1,1))>5',
    '1 and exists(select 1)',
    '1 and (select count(*) from users)>0',
    '1 union select 1,2,3',
    '1 union all select null,null--',
    '1 union distinct (select 1)',
    '1/*x*/union/*y*/select/*z*/password,2',
    '1 UNION SELECT password FROM users',
    '1) union select @@version',
    '1; drop table users',
    '1;exec xp_cmdshell "dir"',
    "1;waitfor delay '0:0:5'",
    '1; select pg_sleep(5)',
    '1; insert into t values (1)',
    '1; update users set admin=1',
    '1;declare @x varchar(9)',
    '1;shutdown--',
    '1 order by 10--',
    '1 group by 1,2 having 1=1',
    "1 into outfile '/tmp/x'",
    '1=(select 1)',
    '@x or 1=1',
    'id or 1=1',
    "name or 'a'='a'",
    'id union select 1,2',
    '1 or case when 1=1 then 2 end',
    '1 xor 1=1',
    '1 div 1 or 1=1',
    '1*2-3 or 4=4',
    `1${'-1'.repeat(200)} or 1=1`,
    `1 or ${'('.repeat(100)}1=1`,
    `1 or ${'- '.repeat(100)}1=1`,
    `1${'/**/'.repeat(100)}or 1=1`,
    '1.or 1=1',
    '1 or.1=.1',
    '1 or@x=@x',
    '\\N union select 1,2',
    'id=1 or 1=1',
    '1 or 1 limit 1',
    '1 and 2=dbms_pipe.receive_message(1,5)',
    '1 and gtid_subset(1,2)',
    '-5) OR 123=(SELECT 123 FROM PG_SLEEP(15))--',
    '1 AND 3516=CAST((CHR(113)||CHR(122)) AS NUMERIC)',
    '1) AND 5436=3456 AND (7634=7634',
    '1 /*!and*/ 1=1'
  ],
  statements: [
    'select * from users',
    'select 1,2',
    'select @@version',
    'select 1 from dual',
    'select sleep(5)',
    'select*from(select(sleep(5)))x',
    '(select(0)from(select(sleep(15)))v)/*x*/',
    'if(now()=sysdate(),sleep(15),0)',
    'sleep(5)',
    'SLEEP (5)--',
    'benchmark(1000,1)',
    "waitfor delay '0:0:5'",
    'drop table users;',
    'drop table users--',
    'insert into users values(1)',
    'delete from users where id=1',
    "exec master..xp_cmdshell 'dir'"
  ],
  'single quotes': [
    "' or 1=1--",
    "' or '1'='1",
    "x' or 'a'='a",
    "' or ''='",
    "' OR 1=1#",
    "' or 1 -- ",
    "' || '1'='1",
    "' && 1=1 && 'a'='a",
    "admin'--",
    "admin' -- ",
    "admin'#",
    "admin'/*",
    "admin')--",
    "admin';--",
    "') or ('a'='a",
    "')) or 1=1--",
    "' and 526=527",
    "' union select 1,2--",
    "x' union all select null",
    "' UnIoN(SeLeCt 1)",
    "'/**/union/**/select/**/1",
    "x' and sleep(5)--",
    "x'-sleep(5)-'",
    "'+sleep(5)+'",
    "' and (select 1)=1--",
    "'||(select extractvalue(1,2",
    "' and extractvalue(1,concat(0x7e,version()))--",
    "'; drop table users--",
    "';exec xp_cmdshell('dir')",
    "';waitfor delay '0:0:5'--",
    "')waitfor delay'0:0:5'--",
    "x'; select pg_sleep(5)--",
    "' order by 5--",
    "' having 1=1--",
    "' group by users.id having 1=1--",
    "x' into outfile '/tmp/x",
    "',(select password from users))--",
    "x','y','z');--",
    "' and user() like 'root%",
    "' or id is null--",
    "x' AND email IS NULL; --",
    "' = '' or ''='",
    "'*1#",
    "\\'' or 1=1--",
    "' | foo bar | '",
    "'||true",
    "'=0--",
    "' = '' -- ",
    "' or id=id--",
    "' or 1 limit 1 -- ",
    "' or !0-- ",
    "x' '' or 1=1--",
    "0'XOR(if(now()=sysdate(),sleep(15),0))XOR'Z",
    "1%' AND 1=1 AND '%'='",
    "x'||dbms_pipe.receive_message(1,5)||'",
    "1' AND (SELECT 2*(IF((SELECT * FROM (SELECT CONCAT(0x71,1))s), 1, 2)))-- x",
    "x' collate nocase or 1=1--",
    "admin'-- x",
    "admin' --",
    "x';shutdown",
    "'||utl_http.request(1)||'"
  ],
  'double quotes': [
    '" or 1=1--',
    '" or "1"="1',
    '" or ""="',
    'x") or ("a"="a',
    '" union select 1--',
    'admin"--',
    'a@b.c" sleep(10.to_i) "',
    '" | type %SystemDrive%\\\\config.ini | "',
    'x" and sleep(5)#'
  ],
  'text before a comment in a comment': ['/a/*/*/2 union all/b', 'x/*/**/or 1; select 1']
}

for (const [name, texts] of Object.entries(ATTACKS)) {
  t.test(`attacks are found: ${name}`, async (t) => {
    for (const text of texts) t.ok(detectSqli(text), text)
  })
}

t.test('white space, case and comments hide nothing', async (t) => {
  const plain = ['1 or 1=1', "x' union select 1,2", "' and sleep(5)--", '1; drop table users']
  const disguises: readonly ((text: string) => string)[] = [
    (text) => text.toUpperCase(),
    (text) => text.replaceAll(' ', '\t\n'),
    (text) => text.replaceAll(' ', '/**/'),
    (text) => text.replaceAll(' ', '/*a b*/\xa0'),
    (text) => text.replaceAll(' ', '-- x\n'),
    (text) => text.replaceAll(' ', '#y\n')
  ]
  for (const text of plain) for (const disguise of disguises) t.ok(detectSqli(disguise(text)), disguise(text))
})

t.test('harmless texts are not found', async (t) => {
  t.ok(harmlessTexts.length >= 500, `${harmlessTexts.length} texts`)
  t.same(
    harmlessTexts.flatMap((text) => {
      const fingerprint = detectSqli(text)
      return fingerprint === undefined ? [] : [`${text}: ${fingerprint}`]
    }),
    []
  )
})
