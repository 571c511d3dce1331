package gradtest_test
import ("testing";"os";"path/filepath";"math";"context";"sync";"selfheal/models/grad/gradtest";"selfheal/models/ort";"selfheal/models/onnx")
func TestZZ(t *testing.T){
 fs,_:=filepath.Glob("/tmp/rb/*.onnx")
 for _,f:=range fs{
  data,_:=os.ReadFile(f)
  g,err:=onnx.Open(data,nil,nil); if err!=nil{t.Log(f,err);continue}
  const B=7
  a,b:=ort.NewPool(1,1),ort.NewPool(1,B)
  pa,err:=a.Compile("a",data,nil,nil); if err!=nil{t.Log(f,err);continue}
  pb,_:=b.Compile("b",data,nil,nil)
  r:=gradtest.Rand(f,"")
  bad:=0
  for range 20{
   var wg sync.WaitGroup
   in,o1,o2:=[B][]float32{},[B][]float32{},[B][]float32{}
   for range B{b.Enter()}
   for i:=range B{
    in[i]=gradtest.Vector(r,int(g.Inputs[0].Shape.Items()))
    n:=int(g.Outputs[0].Shape.Items()); o1[i]=make([]float32,n);o2[i]=make([]float32,n)
    if err:=a.Run(context.Background(),pa,[][]float32{in[i]},[][]float32{o1[i]});err!=nil{t.Fatal(err)}
    wg.Go(func(){defer b.Leave(); b.Run(context.Background(),pb,[][]float32{in[i]},[][]float32{o2[i]})})
   }
   wg.Wait()
   for i:=range B{for j:=range o1[i]{if math.Float32bits(o1[i][j])!=math.Float32bits(o2[i][j]){bad++}}}
  }
  t.Log(filepath.Base(f),"differences",bad)
  a.Close();b.Close()
 }
}
