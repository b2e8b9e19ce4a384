package record

// AppendDynamoDB appends a plain value, which is canonical JSON, as DynamoDB exports it: with
// the name of its type.
func AppendDynamoDB(dst, text []byte) []byte {
	switch text[0] {
	case '"':
		return wrapped(dst, "S", text)
	case '[':
		dst = append(dst, `{"L":`...)
		dst = appendElements(dst, text, AppendDynamoDB)
		return append(dst, '}')
	case '{':
		return appendDynamoObject(dst, text)
	case 't', 'f':
		return wrapped(dst, "BOOL", text)
	case 'n':
		return append(dst, `{"NULL":true}`...)
	}
	dst = append(dst, `{"N":"`...)
	return append(append(dst, text...), `"}`...)
}

func wrapped(dst []byte, tag string, text []byte) []byte {
	dst = append(append(append(dst, `{"`...), tag...), `":`...)
	return append(append(dst, text...), '}')
}

// typeTags are the types of what objects of one member stand for, by the name of the member.
var typeTags = map[string]string{b64Name: "B", numberName: "N", stringSetName: "SS",
	numberSetName: "NS", binarySetName: "BS"}

// appendDynamoObject appends a map, or the value that an object of one member stands for.
func appendDynamoObject(dst, text []byte) []byte {
	name := special(text)
	if name == "" {
		return AppendDynamoMap(dst, text)
	}
	value := text[len(`{"`+name+`":`) : len(text)-1]
	if tag := typeTags[name]; tag != "" {
		return wrapped(dst, tag, value)
	}
	return AppendDynamoMap(dst, value)
}

// AppendDynamoMap appends an object as a map, also if it could stand for a value of another type.
func AppendDynamoMap(dst, text []byte) []byte {
	return append(AppendDynamoItem(append(dst, `{"M":`...), text), '}')
}

// AppendDynamoItem appends the members of an object as attributes.
func AppendDynamoItem(dst, text []byte) []byte {
	p := parser{src: text, out: dst}
	_ = p.objectOf(func() error {
		start := len(p.out)
		if err := p.value(0); err != nil { // not in canonical text
			return err
		}
		value := string(p.out[start:])
		p.out = AppendDynamoDB(p.out[:start], []byte(value))
		return nil
	})
	return p.out
}

// appendElements appends what f makes of the elements of an array.
func appendElements(dst, text []byte, f func(dst, element []byte) []byte) []byte {
	p := parser{src: text, out: dst}
	_ = p.elements(func() error {
		start := p.pos
		skip := parser{src: p.src, pos: p.pos}
		if err := skip.value(0); err != nil {
			return err
		}
		p.pos = skip.pos
		p.out = f(p.out, p.src[start:p.pos])
		return nil
	})
	return p.out
}
